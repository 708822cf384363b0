"""The look of a report: its style sheet, and the script that draws its figures in the reader's light or
dark."""

STYLE = """
:root { --paper:#fbfbfa; --card:#ffffff; --ink:#1c2024; --soft:#60676f; --line:#e3e5e8; --accent:#2563a8;
  --good:#1a7f4b; --warn:#a86400; --bad:#b42318; --c0:#2563a8; --c1:#d97706; --c2:#0f8a6d; --c3:#9b4dca;
  --c4:#c8315b; --c5:#5c6f82; --c6:#7a8b00; --c7:#8a5a3c; --f0:#7fa8cf; --f1:#4d9e8e; --f2:#d2a11e;
  --f3:#df7222; --f4:#c62f2f; color-scheme: light; }
:root[data-theme=dark] { --paper:#14171a; --card:#1b1f24; --ink:#e4e7ea; --soft:#9aa3ad; --line:#30363d;
  --accent:#74aef0; --good:#4cc38a; --warn:#e3a23c; --bad:#f2726a; --c0:#74aef0; --c1:#f0a04b; --c2:#45c4a0;
  --c3:#c191ea; --c4:#f0789a; --c5:#9fb0c0; --c6:#c3d145; --c7:#cfa084; --f0:#5d8ab8; --f1:#45a08e;
  --f2:#d9b03c; --f3:#ee8a3c; --f4:#f05d55; color-scheme: dark; }
* { box-sizing: border-box; }
body { margin:0; background:var(--paper); color:var(--ink); line-height:1.55;
  font:16px/1.55 system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",sans-serif; }
main { max-width:1120px; margin:0 auto; padding:2.2rem 1.5rem 4rem; }
header { border-bottom:1px solid var(--line); padding-bottom:1.1rem; margin-bottom:1.4rem; position:relative;
} h1 { font-size:1.9rem; line-height:1.2; margin:0 3rem .4rem 0; letter-spacing:-.015em; }
h2 { font-size:1.3rem; margin:2.6rem 0 .5rem; letter-spacing:-.01em; }
p { margin:.5rem 0 .9rem; max-width:76ch; }
.lead { font-size:1.12rem; color:var(--soft); margin:0; }
nav { font-size:.9rem; display:flex; flex-wrap:wrap; gap:.2rem 1.1rem; margin-top:.9rem; }
a { color:var(--accent); text-decoration:none; } a:hover { text-decoration:underline; }
.verdict { border-left:5px solid var(--accent); background:var(--card); padding:.95rem 1.2rem; margin:1.2rem
  0; font-size:1.13rem; border-radius:0 8px 8px 0; box-shadow:0 1px 3px rgba(0,0,0,.07); }
.verdict.good { border-color:var(--good); } .verdict.warn { border-color:var(--warn); }
.verdict.bad { border-color:var(--bad); } .verdict p { max-width:none; margin:.15rem 0; }
.card { background:var(--card); border:1px solid var(--line); border-radius:10px; margin:1rem 0 1.4rem;
  padding:.9rem 1rem; overflow-x:auto; }
.caption { color:var(--soft); font-size:.9rem; margin:.5rem .1rem 0; max-width:none; }
table { border-collapse:collapse; width:100%; font-size:.91rem; font-variant-numeric:tabular-nums; }
th { text-align:left; font-weight:600; color:var(--soft); border-bottom:2px solid var(--line);
white-space:nowrap; } th,td { padding:.36rem .75rem .36rem 0; vertical-align:top; } td { border-bottom:1px
solid var(--line); } tr:last-child td { border-bottom:0; } th.n,td.n { text-align:right; white-space:nowrap; }
code,pre { font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,monospace; font-size:.87rem; }
pre { background:var(--paper); border:1px solid var(--line); border-radius:8px; padding:.7rem .9rem;
  margin:.5rem 0; white-space:pre-wrap; overflow-wrap:anywhere; }
details { margin:.6rem 0; } summary { cursor:pointer; color:var(--accent); }
#theme { position:absolute; right:0; top:.2rem; border:1px solid var(--line); border-radius:8px; width:2.3rem;
  height:2.3rem; background:var(--card); color:var(--ink); font-size:1.05rem; cursor:pointer; }
.plot { width:100%; } svg.drawing { display:block; width:100%; height:auto; }
svg text { fill:var(--ink); font-family:system-ui,-apple-system,"Segoe UI",Roboto,sans-serif; }
svg .soft { fill:var(--soft); } svg .box { fill:var(--card); stroke:var(--soft); stroke-width:1.3; }
svg .box.limit { stroke:var(--bad); stroke-width:3; } svg .track { fill:var(--line); }
svg .wire { fill:none; stroke:var(--f0); }
svg .f0 { stroke:var(--f0); } svg .f1 { stroke:var(--f1); } svg .f2 { stroke:var(--f2); }
svg .f3 { stroke:var(--f3); } svg .f4 { stroke:var(--f4); }
svg .b0 { fill:var(--f0); } svg .b1 { fill:var(--f1); } svg .b2 { fill:var(--f2); } svg .b3 { fill:var(--f3);
} svg .b4 { fill:var(--f4); } svg .head { fill:var(--soft); stroke:none; }
svg .plate { fill:var(--card); opacity:.93; }
footer { color:var(--soft); font-size:.85rem; border-top:1px solid var(--line); margin-top:3rem;
padding-top:.8rem; } @media print { #theme,nav { display:none; } body { background:#fff; } .card {
break-inside:avoid; } }
"""

# Before anything is drawn, so that a dark reader sees no flash of white.
EARLY_SCRIPT = """
(function () {
  var saved = null;
  try { saved = localStorage.getItem('latlab-theme'); } catch (e) { saved = null; }
  var dark = saved ? saved === 'dark' : matchMedia('(prefers-color-scheme: dark)').matches;
  document.documentElement.dataset.theme = dark ? 'dark' : 'light';
})();
"""

SCRIPT = """
(function () {
  function ink(name) { return getComputedStyle(document.documentElement).getPropertyValue(name).trim(); }
  function merge(into, from) {
    Object.keys(from).forEach(function (key) {
      if (from[key] && typeof from[key] === 'object' && !Array.isArray(from[key])) {
        into[key] = merge(into[key] || {}, from[key]);
      } else if (into[key] === undefined) { into[key] = from[key]; }
    });
    return into;
  }
  function style(layout) {
    var axis = { gridcolor: ink('--line'), linecolor: ink('--soft'), zerolinecolor: ink('--line'),
      tickcolor: ink('--line'), automargin: true };
    var base = { paper_bgcolor: 'rgba(0,0,0,0)', plot_bgcolor: 'rgba(0,0,0,0)',
      colorway: [0, 1, 2, 3, 4, 5, 6, 7].map(function (i) { return ink('--c' + i); }),
      font: { color: ink('--ink'), family: 'system-ui, sans-serif', size: 13 },
      modebar: { bgcolor: 'rgba(0,0,0,0)', color: ink('--line'), activecolor: ink('--accent') },
      hoverlabel: { bgcolor: ink('--card'), bordercolor: ink('--line'), font: { color: ink('--ink') } },
      margin: { l: 64, r: 16, t: 12, b: 48 }, legend: { orientation: 'h', y: 1.02, yanchor: 'bottom', x: 0 }
          };
    var styled = merge(JSON.parse(JSON.stringify(layout)), base);
    Object.keys(layout).concat(['xaxis', 'yaxis']).forEach(function (key) {
      if (/^[xy]axis/.test(key)) { styled[key] = merge(styled[key] || {}, axis); }
    });
    return styled;
  }
  function draw() {
    if (!window.Plotly) { return; }
    document.querySelectorAll('script.figure').forEach(function (source) {
      var figure = JSON.parse(source.textContent);
      Plotly.react(source.previousElementSibling, figure.data, style(figure.layout),
        { responsive: true, displaylogo: false, modeBarButtonsToRemove: ['lasso2d', 'select2d'] });
    });
  }
  document.getElementById('theme').addEventListener('click', function () {
    var root = document.documentElement;
    root.dataset.theme = root.dataset.theme === 'dark' ? 'light' : 'dark';
    try { localStorage.setItem('latlab-theme', root.dataset.theme); } catch (e) { root.dataset.saved = 'no'; }
    draw();
  });
  var packed = document.getElementById('library');
  if (!packed) { return; }
  if (!window.DecompressionStream) {
    document.querySelectorAll('.caption').forEach(function (caption) {
      caption.textContent += ' (A browser of 2023 or later draws the figure.)';
    });
    return;
  }
  var bytes = Uint8Array.from(atob(packed.textContent), function (one) { return one.charCodeAt(0); });
  var plain = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('gzip'));
  new Response(plain).text().then(function (text) {
    var script = document.createElement('script');
    script.textContent = text;
    document.head.appendChild(script);
    draw();
  });
})();
"""
