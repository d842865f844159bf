# PATH is the image's.
