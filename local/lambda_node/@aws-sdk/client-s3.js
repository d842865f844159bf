// The S3 client that Lambda's Node.js runtimes bring along and a local process lacks: boto3, with the function's credentials.
"use strict";
const { execFileSync } = require("child_process");

function call(operation, input) {
  const options = { input: JSON.stringify(input), encoding: "utf8" };
  const answer = JSON.parse(execFileSync("python3", ["-m", "local.sdk_call", "s3", operation], options));
  if (answer.error) {
    throw Object.assign(new Error(answer.message), { name: answer.error });
  }
  return answer.result;
}

class S3 {
  constructor() {
    return new Proxy({}, { get: (_, operation) => async (input) => call(operation, input) });
  }
}

module.exports = { S3 };
