// limit: thread,process | node|life|MainThread|main|step
let grid = new Uint8Array(256 * 256).map((_, i) => (i * 2654435761 >>> 28) & 1);
function step(g) {
  const out = new Uint8Array(g.length);
  for (let y = 0; y < 256; y++) for (let x = 0; x < 256; x++) {
    let n = 0;
    for (let dy = -1; dy <= 1; dy++) for (let dx = -1; dx <= 1; dx++) if (dx || dy) n += g[((y + dy) & 255) * 256 + ((x + dx) & 255)];
    out[y * 256 + x] = n === 3 || (n === 2 && g[y * 256 + x]) ? 1 : 0;
  }
  return out;
}
const end = Date.now() + 1000 * Number(process.argv[2]);
let n = 0;
while (Date.now() < end) { grid = step(grid); n++; }
console.log(n);
