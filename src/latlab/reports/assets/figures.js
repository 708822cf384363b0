
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
  // Lines are told apart by their dashes too: in print, and by those who see colours otherwise. Eight colours
  // and five dashes come together again after forty lines.
  var dashes = ['solid', 'dash', 'dot', 'dashdot', 'longdash'];
  var symbols = ['circle', 'square', 'diamond', 'cross', 'triangle-up', 'x'];
  function told(data) {
    // Points beyond the eighth series have the first one's colour, and another form.
    data.filter(function (one) { return /markers/.test(one.mode || ''); }).forEach(function (one, i) {
      one.marker = one.marker || {};
      if (i >= 8 && !one.marker.symbol) { one.marker.symbol = symbols[Math.floor(i / 8) % symbols.length]; }
    });
    var lines = data.filter(function (one) {
      return (one.type === 'scatter' || one.type === 'scattergl' || !one.type) &&
        one.showlegend !== false && /lines/.test(one.mode || 'lines');
    });
    if (lines.length < 2) { return data; }
    lines.forEach(function (one, i) {
      one.line = one.line || {};
      if (!one.line.dash) { one.line.dash = dashes[i % dashes.length]; }
    });
    return data;
  }
  function style(layout, width) {
    var axis = { gridcolor: ink('--line'), linecolor: ink('--soft'), zerolinecolor: ink('--line'),
      tickcolor: ink('--line'), automargin: true };
    var base = { paper_bgcolor: 'rgba(0,0,0,0)', plot_bgcolor: 'rgba(0,0,0,0)',
      colorway: [0, 1, 2, 3, 4, 5, 6, 7].map(function (i) { return ink('--c' + i); }),
      font: { color: ink('--ink'), family: 'system-ui, sans-serif', size: 13 },
      modebar: { bgcolor: 'rgba(0,0,0,0)', color: ink('--line'), activecolor: ink('--accent') },
      hoverlabel: { bgcolor: ink('--card'), bordercolor: ink('--line'), font: { color: ink('--ink') } },
      margin: { l: 64, r: 16, t: 12, b: 48 }, legend: { orientation: 'h', y: 1.02, yanchor: 'bottom', x: 0 }
          };
    var own = JSON.parse(JSON.stringify(layout));
    if (width < 560) {  // a telephone: labels take what they need, and no more
      base.font.size = 11;
      if (own.margin && own.margin.l > 48) { own.margin.l = 48; }
    }
    var styled = merge(own, base);
    Object.keys(layout).concat(['xaxis', 'yaxis']).forEach(function (key) {
      if (/^[xy]axis/.test(key)) { styled[key] = merge(styled[key] || {}, axis); }
    });
    return styled;
  }
  function draw() {
    if (!window.Plotly) { return; }
    document.querySelectorAll('script.figure').forEach(function (source) {
      var figure = JSON.parse(source.textContent);
      var place = source.previousElementSibling;
      var layout = style(figure.layout, place.clientWidth);
      var named = figure.data.filter(function (one) { return one.name && one.showlegend !== false; }).length;
      if (place.clientWidth < 560 && named > 4 && layout.showlegend !== false) {
        // A long legend stands in rows above the plot, and must leave it its height.
        layout.height += 18 * named;
        place.style.height = layout.height + 'px';
        if (layout.annotations) { layout.annotations = layout.annotations.filter(function (a) { return !a.textangle; }); }
      }
      Plotly.react(place, told(figure.data), layout, { responsive: true, displayModeBar: false });
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
