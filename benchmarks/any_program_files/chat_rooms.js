// limit: thread | worker|StartThread
// worker_threads: the main thread sends texts to one worker, which hashes them synchronously.
const { Worker, isMainThread, parentPort } = require("worker_threads");
if (isMainThread) {
  const until = Date.now() + 1000 * Number(process.argv[2]);
  const worker = new Worker(__filename);
  worker.on("message", () => {
    if (Date.now() > until) process.exit(0);
    worker.postMessage("text");
  });
  for (let i = 0; i < 4; i++) worker.postMessage("text");
} else {
  parentPort.on("message", (t) => {
    let h = 0;
    for (let i = 0; i < 4_000_000; i++) h = (Math.imul(h, 33) ^ t.charCodeAt(i & 3)) | 0;
    parentPort.postMessage(h);
  });
}
