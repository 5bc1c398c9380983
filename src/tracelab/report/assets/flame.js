// Flame graphs: frames below their callers, drawn on canvas at any zoom. Widths are sums of whole nanoseconds or bytes; frames
// narrower than half a pixel are drawn together and counted.
"use strict";
(() => {
  const block = document.getElementById("json-flame");
  if (!block) return;
  const figures = tracelab.json("flame");
  const ROW = 18, LEAST = 0.5, LEAST_TEXT = 28, INKS = 8, FILL = 0.4, FADED = 0.12;

  for (const each of document.querySelectorAll("[data-flame]")) {
    const target = each.querySelector(".flame-drawing");
    target.style.minHeight = figures[Number(each.dataset.flame)].measures[0].rows * ROW + "px"; // not all are near at once
    tracelab.whenNear(target, () => draw(target, figures[Number(each.dataset.flame)]));
  }

  // Read a tree and compute of each frame total, place and depth: parents come before their children.
  function layOut(tree) {
    if (tree.total) return tree;
    Object.assign(tree, tracelab.json(tree.block));
    const count = tree.own.length;
    tree.total = Float64Array.from(tree.own);
    for (let at = count - 1; at >= 0; at--) if (tree.parents[at] >= 0) tree.total[tree.parents[at]] += tree.total[at];
    tree.start = new Float64Array(count);
    tree.depth = new Uint16Array(count);
    tree.children = Array.from({ length: count }, () => null);
    tree.roots = [];
    const filled = new Float64Array(count);
    let whole = 0;
    for (let at = 0; at < count; at++) {
      const above = tree.parents[at];
      if (above < 0) {
        tree.start[at] = whole;
        whole += tree.total[at];
        tree.roots.push(at);
        continue;
      }
      tree.start[at] = tree.start[above] + filled[above];
      filled[above] += tree.total[at];
      tree.depth[at] = tree.depth[above] + 1;
      (tree.children[above] ??= []).push(at);
    }
    tree.whole = whole;
    return tree;
  }

  function draw(target, figure) {
    let tree = layOut(figure.measures[0]), zoomed = -1, selected = -1, wanted = null, hidden = new Uint8Array(tree.own.length);
    const bar = target.appendChild(tracelab.element("div", undefined, { class: "timeline-bar", role: "toolbar", "aria-label": "Flame graph" }));
    const choice = bar.appendChild(tracelab.element("select", undefined, { "aria-label": "What the widths are" }));
    for (const [at, { title }] of figure.measures.entries()) choice.append(tracelab.element("option", title, { value: at }));
    const search = bar.appendChild(tracelab.element("input", undefined, { type: "search", placeholder: "Search frames (REGEX)", title: "Text, or a regular expression: conv|addmm", "aria-label": "Search frames" }));
    const whole = bar.appendChild(tracelab.element("button", "Whole", { type: "button", title: "Show all stacks" }));
    const status = bar.appendChild(tracelab.element("span", "", { class: "timeline-status", role: "status", "aria-live": "polite" }));
    const surface = target.appendChild(tracelab.element("canvas", undefined, { role: "img", tabindex: "0", "aria-label": `Stacks of ${figure.run}; arrow keys select, Enter zooms, Escape zooms out` }));
    const tip = target.appendChild(tracelab.element("div", undefined, { class: "timeline-tip", hidden: "" }));

    const name = (at) => tree.names[tree.frames[at]];
    const exact = (value) => `${tracelab.readable(value, tree.unit)} (${value.toLocaleString("en")} ${tree.unit})`;
    const view = () => zoomed < 0 ? [0, tree.whole] : [tree.start[zoomed], tree.total[zoomed]];
    const isAbove = (at, below) => {
      for (let each = below; each >= 0; each = tree.parents[each]) if (each === at) return true;
      return false;
    };

    function paint() {
      target.style.minHeight = "";
      surface.style.height = tree.rows * ROW + "px";
      const ratio = devicePixelRatio || 1, width = surface.clientWidth;
      surface.width = Math.round(width * ratio);
      surface.height = Math.round(tree.rows * ROW * ratio);
      const pen = surface.getContext("2d");
      pen.scale(ratio, ratio);
      pen.font = "11px " + getComputedStyle(document.body).fontFamily;
      const inks = Array.from({ length: INKS }, (_, at) => tracelab.color(at));
      const [ink, faint, mark] = ["ink", "faint", "comm"].map(tracelab.color);
      const [from, length] = view(), scale = width / length;
      const path = new Set();
      for (let at = zoomed; at >= 0; at = tree.parents[at]) path.add(at);
      let merged = 0, found = 0, foundUntil = -1;
      hidden = new Uint8Array(tree.own.length);
      for (let at = 0; at < tree.own.length; at++) {
        const above = tree.parents[at];
        const end = tree.start[at] + tree.total[at];
        const isOutside = !path.has(at) && (end <= from || tree.start[at] >= from + length || (zoomed >= 0 && tree.depth[at] <= tree.depth[zoomed]));
        if (isOutside || (above >= 0 && hidden[above] === 2)) { hidden[at] = 2; continue; }
        const left = path.has(at) ? 0 : (tree.start[at] - from) * scale, wide = path.has(at) ? width : tree.total[at] * scale;
        if (hidden[above] || wide < LEAST) {
          hidden[at] = 1;
          merged++;
          if (!hidden[above]) { pen.fillStyle = faint; pen.globalAlpha = FILL; pen.fillRect(left, tree.depth[at] * ROW, Math.max(wide, 1 / ratio), ROW - 1); }
          continue;
        }
        const isFound = wanted !== null && wanted.has(tree.frames[at]);
        pen.globalAlpha = path.has(at) && at !== zoomed ? FADED : wanted !== null && !isFound ? FADED : FILL;
        pen.fillStyle = isFound ? mark : inks[tree.frames[at] % INKS];
        pen.fillRect(left, tree.depth[at] * ROW, Math.max(wide - 0.5, LEAST), ROW - 1);
        pen.globalAlpha = 1;
        if (at === selected) { pen.strokeStyle = ink; pen.strokeRect(left + 1, tree.depth[at] * ROW + 1, Math.max(wide - 2, 1), ROW - 3); }
        if (wide >= LEAST_TEXT) {
          pen.save();
          pen.beginPath();
          pen.rect(left, tree.depth[at] * ROW, wide - 3, ROW);
          pen.clip();
          pen.fillStyle = ink;
          pen.fillText(name(at), left + 3, tree.depth[at] * ROW + 13);
          pen.restore();
        }
      }
      pen.globalAlpha = 1;
      if (wanted !== null) { // of matches inside each other the outermost counts
        const inside = new Uint8Array(tree.own.length);
        for (let at = 0; at < tree.own.length; at++) {
          const above = tree.parents[at];
          inside[at] = above >= 0 && (inside[above] || wanted.has(tree.frames[above])) ? 1 : 0;
          if (!inside[at] && wanted.has(tree.frames[at])) found += tree.total[at];
        }
      }
      const parts = [`${exact(length)}${zoomed < 0 ? "" : ` in ${name(zoomed)}`}`];
      if (merged) parts.push(`${merged.toLocaleString("en")} frames narrower than half a pixel are merged`);
      if (tree.merged) parts.push(`${tree.merged.toLocaleString("en")} smaller frames are not in this page`);
      if (wanted !== null) parts.push(`found: ${exact(found)}, ${tracelab.readable(found / tree.whole, "%")}`);
      status.textContent = parts.join("; ");
    }

    function frameAt(event) {
      const box = surface.getBoundingClientRect(), [from, length] = view();
      const depth = Math.floor((event.clientY - box.top) / ROW), value = from + (event.clientX - box.left) / box.width * length;
      if (zoomed >= 0 && depth <= tree.depth[zoomed]) {
        for (let at = zoomed; at >= 0; at = tree.parents[at]) if (tree.depth[at] === depth) return at;
      }
      let siblings = tree.roots, at = -1;
      for (let level = 0; level <= depth; level++) {
        at = (siblings ?? []).find((each) => value >= tree.start[each] && value < tree.start[each] + tree.total[each]) ?? -1;
        if (at < 0) return -1;
        siblings = tree.children[at];
      }
      return at;
    }

    function describe(at, x, y) {
      tip.hidden = at < 0;
      if (at < 0) return;
      const rows = [
        ["total", `${exact(tree.total[at])}, ${tracelab.readable(tree.total[at] / tree.whole, "%")}`],
        ["own", `${exact(tree.own[at])}, ${tracelab.readable(tree.own[at] / tree.whole, "%")}`],
      ];
      if (hidden[at] === 1) rows.push(["", "narrower than half a pixel: zoom to see it"]);
      tip.replaceChildren(tracelab.tip(name(at), rows));
      const box = target.getBoundingClientRect();
      tip.style.left = Math.max(0, Math.min(x - box.left + 14, box.width - tip.offsetWidth - 4)) + "px";
      tip.style.top = y - box.top + 18 + "px";
    }

    function zoom(at) {
      zoomed = at;
      selected = at;
      paint();
    }

    function select(at) {
      if (at < 0 || at === undefined) return;
      selected = at;
      if (zoomed >= 0 && !isAbove(zoomed, at) && !isAbove(at, zoomed)) zoomed = tree.parents[at];
      paint();
      const box = surface.getBoundingClientRect(), [from, length] = view();
      const left = isAbove(at, zoomed) ? 0 : (tree.start[at] - from) / length * box.width;
      describe(at, box.left + left, box.top + tree.depth[at] * ROW);
    }

    const beside = (by) => {
      const siblings = selected < 0 ? tree.roots : tree.parents[selected] < 0 ? tree.roots : tree.children[tree.parents[selected]];
      return siblings[selected < 0 ? 0 : siblings.indexOf(selected) + by] ?? selected;
    };
    const keys = {
      ArrowUp: () => select(selected < 0 ? tree.roots[0] : tree.parents[selected]),
      ArrowDown: () => select(selected < 0 ? tree.roots[0] : tree.children[selected]?.[0] ?? selected),
      ArrowLeft: () => select(beside(-1)), ArrowRight: () => select(beside(1)),
      Enter: () => zoom(selected), Escape: () => zoom(zoomed < 0 ? -1 : tree.parents[zoomed]), Home: () => zoom(-1),
    };
    surface.addEventListener("keydown", (event) => {
      if (!keys[event.key] || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      keys[event.key]();
    });
    surface.addEventListener("click", (event) => { const at = frameAt(event); if (at >= 0) zoom(at === zoomed ? tree.parents[at] : at); });
    surface.addEventListener("pointermove", (event) => describe(frameAt(event), event.clientX, event.clientY));
    surface.addEventListener("pointerleave", () => { tip.hidden = true; });
    surface.addEventListener("blur", () => { tip.hidden = true; });
    whole.onclick = () => zoom(-1);
    choice.onchange = () => { tree = layOut(figure.measures[choice.value]); match(); zoom(-1); };
    search.oninput = () => { match(); paint(); };

    function match() {
      const text = search.value.toLowerCase(), pattern = parse(search.value);
      const isWanted = (each) => each.toLowerCase().includes(text) || Boolean(pattern?.test(each));
      wanted = text ? new Set(tree.names.flatMap((each, at) => isWanted(each) ? [at] : [])) : null;
    }

    function parse(text) {
      try { return new RegExp(text, "i"); } catch { return null; } // such as an open parenthesis: plain text
    }

    let width = 0;
    new ResizeObserver(() => { if (surface.clientWidth !== width) { width = surface.clientWidth; paint(); } }).observe(target);
    tracelab.onTheme(paint);
    paint();
  }
})();
