// limit: thread | polls|node|Worker|count|work
const { Worker, isMainThread, parentPort } = require('worker_threads');
if (isMainThread) {
  const end = Date.now() + 1000 * Number(process.argv[2] || 2);
  const w = new Worker(__filename);
  let n = 0;
  w.on('message', () => { n++; if (Date.now() < end) w.postMessage(n); else { console.log(n); w.terminate(); } });
  w.postMessage(0);
} else {
  parentPort.on('message', (district) => {
    let votes = 0;
    for (let i = 0; i < 3e6; i++) votes = (votes * 7 + i + district) % 1000003;
    parentPort.postMessage(votes);
  });
}
