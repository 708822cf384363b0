// limit: thread | node|MainThread|main|validate|closest|postcode
const net = require('net');
const { fork } = require('child_process');
const seconds = Number(process.argv[process.argv.length - 1]) || 6;

const CODES = Array.from({ length: 900 }, (_, i) => `${'ABCDEFGH'[i % 8]}${i % 97} ${i % 9}${'XYZ'[i % 3]}${'PQRS'[i % 4]}`);

function closest(code) {
  let best = null, least = Infinity;
  for (const c of CODES) {
    let d = Math.abs(c.length - code.length);
    for (let i = 0; i < Math.min(c.length, code.length); i++) d += Math.abs(c.charCodeAt(i) - code.charCodeAt(i));
    if (d < least) [best, least] = [c, d];
  }
  return best;
}

function validate(line) {
  const parcel = JSON.parse(line);
  return JSON.stringify({ id: parcel.id, codes: parcel.codes.map(closest) });
}

if (process.argv[2] === 'depot') {
  const port = Number(process.argv[3]);
  let n = 0, rest = '';
  const s = net.connect(port, '127.0.0.1', () => ask());
  const ask = () => s.write(JSON.stringify({ id: n++, codes: [0, 1, 2].map(k => `B${(n * 7 + k) % 97} ${n % 9}YR`) }) + '\n');
  s.on('data', d => {
    rest += d;
    for (let at; (at = rest.indexOf('\n')) >= 0; ) {
      rest = rest.slice(at + 1);
      ask();
    }
  });
  s.on('close', () => process.exit(0));
  s.on('error', () => process.exit(0));
} else {
  let served = 0;
  const server = net.createServer(sock => {
    let rest = '';
    sock.on('error', () => {});
    sock.on('data', d => {
      rest += d;
      for (let at; (at = rest.indexOf('\n')) >= 0; ) {
        sock.write(validate(rest.slice(0, at)) + '\n');
        rest = rest.slice(at + 1);
        served++;
      }
    });
  });
  server.listen(0, '127.0.0.1', () => {
    const depots = [1, 2].map(() => fork(__filename, ['depot', String(server.address().port), '0']));
    setTimeout(() => {
      depots.forEach(d => d.kill());
      console.log(`${served} parcels`);
      process.exit(0);
    }, seconds * 1000);
  });
}
