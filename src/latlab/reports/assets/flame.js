// Draws every flame graph of the page: <div class="flame-graph"> with a JSON tree in a script of its own.
// A node is [name, running ns, waiting ns, [children]]; its width is what the chosen kinds of time sum to.
(() => {
  const ROW = 20, LEAST = 0.0012, RAN = [246, 170, 82], WAITED = [131, 179, 226];
  const unit = (ns) => ns >= 1e9 ? `${(ns / 1e9).toPrecision(3)} s` : ns >= 1e6 ? `${(ns / 1e6).toPrecision(3)} ms`
    : `${(ns / 1e3).toPrecision(3)} µs`;
  const colour = (node) => {
    const off = node[2] / Math.max(1, node[1] + node[2]);
    return `rgb(${RAN.map((on, i) => Math.round(on + (WAITED[i] - on) * off)).join(" ")})`;
  };
  for (const graph of document.querySelectorAll(".flame-graph")) {
    const root = JSON.parse(graph.querySelector("script").textContent);
    const area = graph.querySelector(".flame"), told = graph.querySelector(".flame-told");
    const kind = graph.querySelector("select"), search = graph.querySelector("input");
    const back = graph.querySelector("button");
    const weight = (node) => (kind.value !== "off" ? node[1] : 0) + (kind.value !== "on" ? node[2] : 0);
    let path = [root];
    const say = (node) => {
      const all = weight(root) || 1;
      told.textContent = `${node[0]}: ${unit(weight(node))}, ${(100 * weight(node) / all).toFixed(1)} % `
        + `(running ${unit(node[1])}, waiting ${unit(node[2])})`;
    };
    const draw = () => {
      const wanted = search.value.trim().toLowerCase(), focus = path[path.length - 1];
      const whole = weight(focus) || 1;
      area.textContent = "";
      let deepest = 0, found = 0;
      const bar = (node, left, width, depth, above, inMatch) => {
        const match = wanted && node[0].toLowerCase().includes(wanted);
        if (match && !inMatch && !above) found += weight(node);
        const box = document.createElement("div");
        box.textContent = width > 0.018 ? node[0] : "";
        box.tabIndex = 0;
        box.setAttribute("role", "button");
        box.style.cssText = `left:${100 * left}%;width:${100 * width}%;top:${depth * ROW}px;background:${colour(node)}`;
        if (above) box.classList.add("faded");
        if (match) box.classList.add("match");
        box.setAttribute("aria-label", `${node[0]}, ${unit(weight(node))}`);
        box.onmouseenter = box.onfocus = () => say(node);
        box.onclick = () => { const at = path.indexOf(node); path = at >= 0 ? path.slice(0, at + 1) : trail(node); draw(); };
        box.onkeydown = (event) => { if (event.key === "Enter" || event.key === " ") { event.preventDefault(); box.onclick(); } };
        area.append(box);
        deepest = Math.max(deepest, depth);
        return match || inMatch;
      };
      const below = (node, left, depth, inMatch) => {
        let at = left;
        for (const child of [...node[3]].sort((a, b) => weight(b) - weight(a))) {
          const width = weight(child) / whole;
          if (width > LEAST) below(child, at, depth + 1, bar(child, at, width, depth + 1, false, inMatch));
          at += width;
        }
      };
      path.slice(0, -1).forEach((node, depth) => bar(node, 0, 1, depth, true, false));
      below(focus, 0, path.length - 1, bar(focus, 0, 1, path.length - 1, false, false));
      area.style.height = `${(deepest + 1) * ROW}px`;
      back.disabled = path.length === 1;
      if (wanted) told.textContent = `“${search.value}”: ${(100 * found / whole).toFixed(1)} % of what is shown`;
      else say(focus);
    };
    const trail = (node) => {
      const walk = (one, way) => one === node ? [...way, one]
        : one[3].reduce((got, child) => got || walk(child, [...way, one]), null);
      return walk(root, []);
    };
    back.onclick = () => { path = [root]; draw(); };
    kind.onchange = search.oninput = draw;
    draw();
  }
})();
