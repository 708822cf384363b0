// limit: thread,process | node|MainThread|main|reports
// One event loop: a report that is computed in a callback holds up the timers and the socket.
const net = require("net");
const until = Date.now() + 1000 * Number(process.argv[2]);
function report(n) {
  let h = 0;
  for (let i = 0; i < n; i++) h = (Math.imul(h, 31) + i) | 0;
  return h;
}
const server = net.createServer((s) => s.on("data", () => s.write(String(report(3_000_000)))));
server.listen(0, "127.0.0.1", () => {
  const client = net.connect(server.address().port, "127.0.0.1");
  client.write("go");
  client.on("data", () => {
    if (Date.now() < until) client.write("go");
    else process.exit(0);
  });
});
