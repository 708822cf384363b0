const http = require("http");
const page = Buffer.alloc(6000000, "x");
http.createServer((request, response) => { const body = request.url === "/atlas" ? page : "hello"; response.setHeader("Content-Length", body.length); response.end(body); }).listen(Number(process.argv[2]), "127.0.0.1");
