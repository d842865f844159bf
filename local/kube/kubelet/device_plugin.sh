#!/bin/sh
exec "$PYTHON" "$PROGRAM"
