(function () {
  // Of each look: when, the mean by Little's law, and p50, p99, p99.9 of traced events where there are any.
  var curves = [['mean', '--c0'], ['p50', '--c1'], ['p99', '--c2'], ['p99.9', '--c3']];
  var rows = {}, stageRows = {}, history = [], began = null, sortBy = null;
  function $(id) { return document.getElementById(id); }
  function cell(row, text, right) {
    var made = row.insertCell(); made.textContent = text; if (right) { made.className = 'n'; } return made;
  }
  function set(node, text) { text = String(text); if (node.textContent !== text) { node.textContent = text; } }
  function number(value) {
    if (value === null || value === undefined) { return '–'; }
    if (value >= 1e6) { return (value / 1e6).toFixed(1) + ' M'; }
    if (value >= 1e4) { return (value / 1e3).toFixed(1) + ' k'; }
    return Math.round(value).toLocaleString('en');
  }
  function time(ns) {
    if (ns === null) { return '–'; }
    var k = ns < 1e3 ? 0 : ns < 1e6 ? 1 : ns < 1e9 ? 2 : 3; // three digits, as everywhere
    return Number((ns / Math.pow(1e3, k)).toPrecision(3)) + [' ns', ' µs', ' ms', ' s'][k];
  }
  function known(value) { return value !== null && value > 0; }
  function percent(share) { return share === null ? '–' : Math.round(100 * share) + ' %'; }
  function level(share) { return share < .01 ? 0 : share < .1 ? 1 : share < .5 ? 2 : share < .9 ? 3 : 4; }
  function topology(queues) {
    var body = $('queues'); body.replaceChildren(); rows = {};
    queues.forEach(function (q) {
      var row = body.insertRow(), bar = document.createElement('div'), fill = document.createElement('i');
      cell(row, q[1] || 'queue ' + q[0]); cell(row, (q[2] || '?') + ' → ' + (q[3] || '?'));
      bar.className = 'bar'; bar.appendChild(fill); row.insertCell().appendChild(bar);
      rows[q[0]] = { row: row, bar: fill, capacity: q[5], kind: q[4], cells: [0, 1, 2, 3, 4, 5].map(function () {
        return cell(row, '', true); }) };
    });
  }
  // A frame has the rows that differ from the frame before; a whole one has all.
  function frame(f) {
    f.queues.forEach(function (q) {
      var r = rows[q[0]]; if (!r) { return; }
      var share = r.capacity ? Math.min(1, q[1] / r.capacity) : 0;
      var hurts = r.kind === 'pool' ? 1 - share : share;
      var width = Math.round(100 * share) + '%', name = 'f' + level(hurts);
      if (r.bar.style.width !== width) { r.bar.style.width = width; }
      if (r.bar.className !== name) { r.bar.className = name; }
      set(r.cells[0], number(q[1]) + (r.capacity ? ' / ' + number(r.capacity) : ''));
      set(r.cells[1], number(q[2])); set(r.cells[2], number(q[3])); set(r.cells[3], number(q[4]));
      set(r.cells[4], number(q[5])); r.cells[4].classList.toggle('lost', q[5] > 0); set(r.cells[5], number(q[6]));
    });
    if (f.whole) { stageRows = {}; $('stages').replaceChildren(); }
    f.stages.forEach(function (s) {
      var r = stageRows[s[0]];
      if (!r) {
        var row = $('stages').insertRow(); cell(row, s[0]);
        r = stageRows[s[0]] = { row: row, type: s[6], cells: [0, 1, 2, 3, 4].map(function () { return cell(row, '', true); }) };
      }
      set(r.cells[0], s[1]); set(r.cells[1], percent(s[2])); set(r.cells[2], percent(s[3]));
      set(r.cells[3], number(s[4])); set(r.cells[4], number(s[5]));
    });
    Object.keys(stageRows).forEach(function (label) {
      var r = stageRows[label], name = f.limits && (label === f.limits || r.type === f.limits) ? 'limits' : '';
      if (r.row.className !== name) { r.row.className = name; }
    });
    var said = f.limits ? 'Bottleneck: ' + f.limits + ' (confidence ' + percent(f.confidence) + ')' :
      f.verdict === 'none' ? 'No stage limits.' : f.verdict ? 'No stage limits: ' + f.verdict + '.' : 'Looking …';
    set($('verdict'), said); $('verdict').parentNode.className = 'verdict ' + (f.limits ? 'bad' : 'good');
    if (began === null) { began = f.t; }
    var traced = f.latency || [null, null, null];
    history.push([f.t, f.mean_ns, traced[0], traced[1], traced[2]]);
    set($('latency'), f.latency === null ? 'no traces (docs: event traces)' :
      f.latency[5] ? 'the traces are full: what the application does from now on is not traced' :
      'p50 ' + time(traced[0]) + ', p99 ' + time(traced[1]) + ', p99.9 ' + time(traced[2]) + ' (' +
      number(f.latency[3]) + ' traced events in ' + f.latency[4] + ' s)');
    while (history.length && history[0][0] < f.t - 6e10) { history.shift(); }
    var sorted = history.map(function (h) { return h[1]; }).filter(known).sort(function (a, b) { return a - b; });
    function q(p) { return sorted.length ? sorted[Math.max(0, Math.ceil(p * sorted.length) - 1)] : null; }
    set($('mean'), 'now ' + time(f.mean_ns) + '; over the last minute p50 ' + time(q(.5)) + ', p90 ' +
      time(q(.9)) + ', p99 ' + time(q(.99)));
    set($('state'), (f.alive ? 'live' : 'the application has ended') + ', ' + ((f.t - began) / 1e9).toFixed(0) + ' s');
    f.events.forEach(function (e) {
      var line = document.createElement('div'); line.className = e[1];
      line.textContent = ((e[0] - began) / 1e9).toFixed(1) + ' s  ' + e[2];
      $('events').prepend(line);
      while ($('events').childElementCount > 200) { $('events').lastChild.remove(); }
    });
  }
  function plot() {
    var canvas = $('time'), width = canvas.clientWidth, height = canvas.clientHeight;
    var ratio = devicePixelRatio || 1; canvas.width = width * ratio; canvas.height = height * ratio;
    var draw = canvas.getContext('2d'); draw.scale(ratio, ratio);
    if (history.length < 2) { return; }
    // Logarithmic: p50 and p99.9 lie decades apart.
    var values = [].concat.apply([], history.map(function (h) { return h.slice(1).filter(known); }));
    if (!values.length) { return; }
    var low = Math.log(Math.min.apply(null, values) / 1.2), high = Math.log(Math.max.apply(null, values) * 1.2);
    var last = history[history.length - 1][0], style = getComputedStyle(document.documentElement);
    draw.lineWidth = 1.5;
    curves.forEach(function (curve, k) {
      var down = false; draw.strokeStyle = style.getPropertyValue(curve[1]); draw.beginPath();
      history.forEach(function (h) {
        if (!known(h[k + 1])) { down = false; return; }
        var x = width * (1 - (last - h[0]) / 6e10);
        var y = height * (1 - (Math.log(h[k + 1]) - low) / (high - low));
        if (down) { draw.lineTo(x, y); } else { draw.moveTo(x, y); }
        down = true;
      });
      draw.stroke();
    });
    draw.fillStyle = style.getPropertyValue('--soft');
    draw.fillText(time(Math.exp(high)), 4, 12); draw.fillText(time(Math.exp(low)), 4, height - 4);
  }
  curves.forEach(function (curve) {
    // A line in the curve's colour: as a text's some of them are too pale to be read.
    var mark = document.createElement('i'); mark.style.background = 'var(' + curve[1] + ')';
    $('legend').append(mark, ' ' + curve[0] + ' ');
  });
  var source = new EventSource('events' + location.search);
  source.addEventListener('topology', function (e) { topology(JSON.parse(e.data)); });
  source.addEventListener('drawing', function (e) {
    var svg = JSON.parse(e.data); $('drawing').innerHTML = svg; $('drawing').hidden = !svg;
  });
  source.addEventListener('frame', function (e) { frame(JSON.parse(e.data)); });
  source.onerror = function () { set($('state'), 'no connection: latlab has ended, or is not reached'); };
  setInterval(plot, 500);
  $('theme').addEventListener('click', function () {
    var root = document.documentElement;
    root.dataset.theme = root.dataset.theme === 'dark' ? 'light' : 'dark';
    try { localStorage.setItem('latlab-theme', root.dataset.theme); } catch (e) { root.dataset.saved = 'no'; }
  });
})();
