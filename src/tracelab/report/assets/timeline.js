// The timeline: every device's bins, drawn on canvas at any zoom. Bins merge in pairs, so each value is a sum of integer
// nanoseconds. Nothing is interpolated within the finest bins.
"use strict";
(() => {
  const block = document.getElementById("json-timeline");
  if (!block) return;
  const { parts, levels, runs } = tracelab.json("timeline");
  const { accumulate, binOf, sum, most } = tracelab.bins;
  const BAND = 64, LOW_BAND = 36, TRACK = 26, LABEL = 18, AXIS = 22, LEFT = 8;
  const MOST_TALL = 4; // bands of more devices are low, and without tracks until these are wanted
  const TRACKS = [
    // The mean of a bin in front of its maximum: equal means can have different maxima.
    { name: "kernels in flight", of: "kernel_ns", most: "max_kernels", unit: "", ink: "compute", mean: true },
    { name: "copied", of: "copy_bytes", unit: "GB/s", ink: "memory", mean: true },
    { name: "allocated memory", of: "max_allocated_bytes", unit: "B", ink: 3, mean: false },
  ];
  const FAINT = 0.35;
  const shown = new Map(), wanted = new Map(); // by run: the function that zooms to a place, and a clicked link's place until it is drawn

  for (const run of runs) {
    run.edges = accumulate(run.edges);
    for (const { columns } of run.devices) {
      for (const name of levels) if (columns[name]) columns[name] = accumulate(columns[name]);
    }
  }

  for (const figure of document.querySelectorAll("[data-timeline]")) {
    const run = runs[Number(figure.dataset.timeline)];
    const target = figure.querySelector(".timeline-drawing");
    tracelab.whenNear(target, () => draw(target, run));
  }

  function draw(target, run) {
    const first = run.edges[0], last = run.edges.at(-1);
    const view = { from: first, to: last };
    const bar = target.appendChild(tracelab.element("div", undefined, { class: "timeline-bar", role: "toolbar", "aria-label": "Zoom" }));
    const buttons = [
      ["+", "Zoom in", () => zoom(0.5)], ["−", "Zoom out", () => zoom(2)],
      ["←", "Earlier", () => move(-0.25)], ["→", "Later", () => move(0.25)], ["Whole", "Show all of the run", () => show(first, last)],
    ];
    for (const [text, label, act] of buttons) {
      bar.append(Object.assign(tracelab.element("button", text, { type: "button", "aria-label": label, title: label }), { onclick: act }));
    }
    const status = bar.appendChild(tracelab.element("span", "", { class: "timeline-status", role: "status", "aria-live": "polite" }));
    const tip = tracelab.element("div", undefined, { class: "timeline-tip", hidden: "" });
    const axis = canvas(target, AXIS + 14, "Time axis");
    const isTall = run.devices.length <= MOST_TALL;
    const bands = run.devices.map((device) => band(target, device, isTall ? BAND : LOW_BAND));
    bands.forEach((each, at) => each.box.classList.toggle("screen", !run.onPaper.includes(at)));
    const unprinted = bands.length - run.onPaper.length;
    if (unprinted) target.append(tracelab.countInFile(tracelab.element("p", "", { class: "paper cut" }), unprinted, "device"));
    if (!isTall && bands.some((each) => each.every.length)) {
      const label = `Show ${[...new Set(bands.flatMap((each) => each.every.map((track) => track.name)))].join(", ")}`;
      const tracks = tracelab.element("button", "Tracks", { type: "button", "aria-label": label, title: label, "aria-pressed": "false" });
      const showTracks = (isShown) => {
        tracks.setAttribute("aria-pressed", String(isShown));
        for (const each of bands) setTracks(each, isShown ? each.every : []);
        redraw();
      };
      tracks.onclick = () => showTracks(tracks.getAttribute("aria-pressed") === "false");
      bar.insertBefore(tracks, status);
      for (const each of bands) setTracks(each, []);
    }
    target.append(tip);

    let isScheduled = false;
    function redraw() {
      if (isScheduled) return;
      isScheduled = true;
      requestAnimationFrame(() => { isScheduled = false; paint(); });
    }

    function paint() {
      const group = grouping(run, view, axis.clientWidth);
      status.textContent = `${tracelab.readable(view.to - view.from, "ns")} shown, a bin is ${tracelab.readable(group.length, "ns")}`;
      paintAxis(axis, run, view);
      for (const each of bands) paintBand(each, run, view, group);
    }

    function show(from, to) {
      const least = Math.min(last - first, 8 * (run.edges[1] - first));
      const length = Math.min(Math.max(to - from, least), last - first);
      view.from = Math.min(Math.max((from + to - length) / 2, first), last - length);
      view.to = view.from + length;
      redraw();
    }
    const zoom = (by, share = 0.5) => {
      const at = view.from + (view.to - view.from) * share, length = (view.to - view.from) * by;
      const from = at - length * share;
      show(from, from + length);
    };
    const move = (share) => {
      const by = (view.to - view.from) * share;
      const from = Math.min(Math.max(view.from + by, first), last - (view.to - view.from));
      show(from, from + view.to - view.from);
    };

    const keys = { "+": () => zoom(0.5), "=": () => zoom(0.5), "-": () => zoom(2), ArrowLeft: () => move(-0.1), ArrowRight: () => move(0.1), Home: () => show(first, last) };
    for (const each of bands) {
      const surface = each.canvas;
      surface.addEventListener("keydown", (event) => {
        if (!keys[event.key] || event.ctrlKey || event.metaKey || event.altKey) return;
        event.preventDefault();
        keys[event.key]();
      });
      surface.addEventListener("wheel", (event) => {
        if (!event.ctrlKey && !event.metaKey) return; // the page scrolls
        event.preventDefault();
        zoom(Math.exp(event.deltaY / 300), share(surface, event));
      }, { passive: false });
      gestures(surface, { zoom, move, hover: (event) => hover(each, event), leave: () => { tip.hidden = true; } });
    }

    function hover(each, event) {
      const group = grouping(run, view, axis.clientWidth);
      const at = view.from + (view.to - view.from) * share(each.canvas, event);
      const start = binOf(run, at) >> group.power << group.power;
      const end = Math.min(start + (1 << group.power), run.edges.length - 1);
      const length = run.edges[end] - run.edges[start];
      const exact = (ns) => `${tracelab.readable(ns, "ns")} (${ns.toLocaleString("en")} ns)`;
      const rows = parts.map(([name, color, label]) => {
        const ns = sum(each.device.columns[name], start, end);
        return [label, `${tracelab.readable(ns / length, "%")} of the bin: ${exact(ns)}`, tracelab.color(color)];
      });
      const outside = length - parts.reduce((total, [name]) => total + sum(each.device.columns[name], start, end), 0);
      if (outside) rows.push(["not recorded", `${tracelab.readable(outside / length, "%")} of the bin: ${exact(outside)}`]);
      for (const track of each.every) rows.push([track.name, figureOf(track, each.device, start, end, length)]);
      const title = `${each.title}: ${exact(run.edges[start] - first)} + ${exact(length)}`;
      tip.replaceChildren(tracelab.tip(title, rows));
      tip.hidden = false;
      const box = target.getBoundingClientRect();
      const left = Math.min(event.clientX - box.left + 14, box.width - tip.offsetWidth - 4);
      tip.style.left = Math.max(0, left) + "px";
      tip.style.top = event.clientY - box.top + 18 + "px";
    }

    new ResizeObserver(redraw).observe(target);
    tracelab.onTheme(paint);
    paint();
    shown.set(run.run, (step, rank) => {
      const [, start, length] = run.steps.find(([number]) => String(number) === step) ?? [];
      if (start !== undefined) show(start - length / 4, start + length * 1.25);
      const place = bands.findIndex(({ device }) => String(device.rank) === rank);
      (bands[place] ?? bands[0])?.canvas.scrollIntoView({ block: "center" });
    });
    wanted.get(run.run)?.();
  }

  // A link to a place of the timeline: its run, step and rank, the latter two where they are known.
  document.addEventListener("click", (event) => {
    const link = event.target.closest?.("a[data-place]");
    if (!link) return;
    const { place, step, rank } = link.dataset;
    const go = () => { wanted.delete(place); shown.get(place)(step, rank); };
    if (shown.has(place)) setTimeout(go); // the browser first scrolls to the section
    else wanted.set(place, go);
  });

  function band(target, device, tall) {
    const every = TRACKS.filter((track) => device.columns[track.of]);
    const title = `rank ${device.rank} · GPU ${device.device ?? "?"}`;
    const box = target.appendChild(tracelab.element("div", undefined, { class: "timeline-band" }));
    box.append(tracelab.element("h4", title));
    const made = { box, device, every, tall, title, canvas: canvas(box, tall, `${title}; + and − zoom, arrow keys move`) };
    made.canvas.tabIndex = 0;
    setTracks(made, every);
    return made;
  }

  function setTracks(each, tracks) {
    each.tracks = tracks;
    each.canvas.style.height = each.tall + tracks.length * (LABEL + TRACK) + "px";
  }

  function canvas(target, height, label) {
    const surface = tracelab.element("canvas", undefined, { role: "img", "aria-label": label });
    surface.style.height = height + "px";
    return target.appendChild(surface);
  }

  // Return how many bins, as a power of two, merge so that none is narrower than a pixel, and the length of such a group.
  function grouping(run, view, width) {
    const bins = run.edges.length - 1, visible = bins * (view.to - view.from) / (run.edges[bins] - run.edges[0]);
    let power = 0;
    while (visible / 2 ** power > Math.max(width - 2 * LEFT, 1)) power++;
    return { power, length: run.edges[Math.min(1 << power, bins)] - run.edges[0] };
  }

  function level(track, device, start, end, length) {
    const values = device.columns[track.of];
    return track.mean ? sum(values, start, end) / length : most(values, start, end);
  }

  // Return the maximum of a track over some bins; for kernels, the most in flight at once rather than a mean.
  function top(track, device, start, end, length) {
    return track.most ? most(device.columns[track.most], start, end) : level(track, device, start, end, length);
  }

  function figureOf(track, device, start, end, length) {
    const value = level(track, device, start, end, length);
    if (track.of === "kernel_ns") {
      return `${tracelab.readable(value, "")} on average, ${most(device.columns.max_kernels, start, end) ?? 0} at most`;
    }
    if (track.of === "copy_bytes") {
      const bytes = sum(device.columns.copy_bytes, start, end);
      return `${tracelab.readable(value, "GB/s")} (${bytes.toLocaleString("en")} bytes)`;
    }
    const end_bytes = device.columns.allocated_bytes?.[end - 1] ?? null;
    const exact = value === null ? "" : ` (${value.toLocaleString("en")} bytes)`;
    return `${tracelab.readable(value, "B")} at most${exact}, ${tracelab.readable(end_bytes, "B")} at the end`;
  }

  function share(surface, event) {
    const box = surface.getBoundingClientRect();
    return Math.min(Math.max((event.clientX - box.left - LEFT) / (box.width - 2 * LEFT), 0), 1);
  }

  function preparePen(surface) {
    const ratio = devicePixelRatio || 1, width = surface.clientWidth, height = surface.clientHeight;
    surface.width = Math.round(width * ratio);
    surface.height = Math.round(height * ratio);
    const pen = surface.getContext("2d");
    pen.scale(ratio, ratio);
    pen.font = "11px " + getComputedStyle(document.body).fontFamily;
    return { pen, width, ratio };
  }

  function paintBand(each, run, view, group) {
    const { pen, width, ratio } = preparePen(each.canvas);
    const place = (ns) => LEFT + (ns - view.from) / (view.to - view.from) * (width - 2 * LEFT);
    const snapped = (x) => Math.round(x * ratio) / ratio; // whole pixels, else edges shine through
    const stride = 1 << group.power;
    const begin = binOf(run, view.from) >> group.power << group.power, stop = Math.min(binOf(run, view.to - 1) + 1, run.edges.length - 1);
    const inks = parts.map(([, color]) => tracelab.color(color));
    const tops = each.tracks.map((_, at) => each.tall + LABEL + at * (LABEL + TRACK));
    const highest = each.tracks.map((track) => {
      let peak = 0;
      for (let at = begin; at < stop; at += stride) {
        const end = Math.min(at + stride, run.edges.length - 1);
        peak = Math.max(peak, top(track, each.device, at, end, run.edges[end] - run.edges[at]) ?? 0);
      }
      return peak;
    });
    pen.save();
    pen.beginPath();
    pen.rect(LEFT, 0, width - 2 * LEFT, each.canvas.clientHeight);
    pen.clip();
    const trackInks = each.tracks.map((track) => tracelab.color(track.ink));
    for (let at = begin; at < stop; at += stride) {
      const end = Math.min(at + stride, run.edges.length - 1), length = run.edges[end] - run.edges[at];
      const left = snapped(place(run.edges[at])), wide = Math.max(snapped(place(run.edges[end])) - left, 1 / ratio);
      let bottom = each.tall;
      parts.forEach(([name], index) => {
        const tall = each.tall * sum(each.device.columns[name], at, end) / length;
        if (!tall) return;
        pen.fillStyle = inks[index];
        pen.fillRect(left, bottom - tall, wide, tall);
        bottom -= tall;
      });
      each.tracks.forEach((track, index) => {
        const value = level(track, each.device, at, end, length);
        if (!value || !highest[index]) return;
        const fill = (of, alpha) => {
          const tall = TRACK * of / highest[index];
          pen.globalAlpha = alpha;
          pen.fillRect(left, tops[index] + TRACK - tall, wide, tall);
        };
        pen.fillStyle = trackInks[index];
        if (track.most) fill(top(track, each.device, at, end, length), FAINT);
        fill(value, 1);
      });
    }
    pen.restore();
    const captions = each.tracks.map((track, index) => `${track.name}, up to ${tracelab.readable(highest[index], track.unit)}${track.mean && !track.most ? " in a bin" : ""}`);
    each.canvas.setAttribute("aria-description", captions.join("; "));
    captions.forEach((text, index) => {
      pen.fillStyle = tracelab.color("ink");
      pen.fillText(text, LEFT, tops[index] - 5);
      pen.fillStyle = tracelab.color("line");
      pen.fillRect(LEFT, tops[index] + TRACK - 1, width - 2 * LEFT, 1);
    });
  }

  function paintAxis(surface, run, view) {
    const { pen, width } = preparePen(surface);
    const span = view.to - view.from, place = (ns) => LEFT + (ns - view.from) / span * (width - 2 * LEFT);
    const minStep = span / Math.max(2, width / 110);
    const power = 10 ** Math.floor(Math.log10(minStep));
    const step = [1, 2, 5, 10].map((by) => by * power).find((by) => by >= minStep);
    pen.fillStyle = tracelab.color("ink");
    for (let at = Math.ceil(view.from / step) * step; at <= view.to; at += step) {
      pen.fillRect(place(at), AXIS + 8, 1, 6);
      const text = tracelab.readable(at, "ns"), wide = pen.measureText(text).width;
      pen.fillText(text, Math.min(Math.max(place(at) - wide / 2, 0), width - wide), AXIS + 4);
    }
    pen.fillStyle = tracelab.color("faint");
    let free = -Infinity;
    for (const [number, at, length] of run.steps ?? []) {
      if (at + length < view.from || at > view.to) continue;
      const x = Math.max(place(at), LEFT), text = `step ${number ?? "?"}`;
      if (at >= view.from) pen.fillRect(x, 0, 1, 12);
      if (x > free) {
        pen.fillText(text, x + 3, 9);
        free = x + 8 + pen.measureText(text).width;
      }
    }
  }

  // Dragging moves, two fingers zoom, hovering shows values; a vertical swipe scrolls the page.
  function gestures(surface, act) {
    const pointers = new Map();
    surface.style.touchAction = "pan-y";
    surface.addEventListener("pointerdown", (event) => {
      pointers.set(event.pointerId, event);
      surface.setPointerCapture(event.pointerId);
    });
    surface.addEventListener("pointermove", (event) => {
      const before = pointers.get(event.pointerId);
      if (!before) { act.hover(event); return; }
      const wide = surface.clientWidth - 2 * LEFT;
      if (pointers.size === 2) {
        const other = [...pointers.values()].find((each) => each.pointerId !== event.pointerId);
        const distance = Math.abs(before.clientX - other.clientX), now = Math.abs(event.clientX - other.clientX);
        if (distance > 8 && now > 8) act.zoom(distance / now, share(surface, other));
      } else if (event.clientX !== before.clientX) {
        act.move((before.clientX - event.clientX) / wide);
        act.leave();
      }
      pointers.set(event.pointerId, event);
    });
    for (const name of ["pointerup", "pointercancel"]) surface.addEventListener(name, (event) => {
      const before = pointers.get(event.pointerId);
      pointers.delete(event.pointerId);
      if (before && name === "pointerup") act.hover(event);
    });
    surface.addEventListener("pointerleave", act.leave);
  }
})();
