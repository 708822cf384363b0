const net = require("net");
let count = 0;
const every = Number(process.argv[3]);
function priceList() { const end = Date.now() + 25; let x = 0; while (Date.now() < end) for (let i = 0; i < 1000; i++) x += Math.sqrt(i); return x; }
function answer(socket, chunk) { count++; if (every && count % every === 0) priceList(); socket.write("ok " + chunk); }
net.createServer((socket) => { socket.setNoDelay(true); socket.on("data", (chunk) => answer(socket, chunk)); socket.on("error", () => {}); }).listen(Number(process.argv[2]), "127.0.0.1");
