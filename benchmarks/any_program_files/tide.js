// limit: timer,load | tide|timer|node|setInterval|sleep|MainThread|main|work
const end = Date.now() + 1000 * Number(process.argv[2] || 2);
let level = 0;
const id = setInterval(() => {
  for (let i = 0; i < 5000; i++) level = Math.sin(level + i);
  if (Date.now() > end) { clearInterval(id); console.log(level); }
}, 15);
