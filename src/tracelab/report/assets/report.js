// The report's core: theme, run selector, lazily drawn charts. All text reaches the page through textContent.
"use strict";
const tracelab = (() => {
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const root = document.documentElement;
  const themed = [], picking = [], waiting = new Map();
  let printing = false;

  const SCALES = {
    ns: [[1, "ns"], [1e3, "µs"], [1e6, "ms"], [1e9, "s"]],
    B: [[1, "B"], [1e3, "kB"], [1e6, "MB"], [1e9, "GB"], [1e12, "TB"]],
    "%": [[0.01, "%"]],
  };

  const json = (name) => JSON.parse(document.getElementById("json-" + name).textContent);

  function color(name) {
    const variable = typeof name === "number" ? "c" + (name % 8) : name;
    const probe = document.createElement("span");
    probe.style.color = "var(--" + variable + ")";
    root.append(probe);
    const value = getComputedStyle(probe).color;
    probe.remove();
    return value;
  }

  // Select the unit in which the largest value has one to three digits before the point.
  function scale(unit, values) {
    const scales = SCALES[unit];
    if (!scales) return [1, unit];
    const largest = Math.max(0, ...values.map(Math.abs));
    return scales.findLast(([size]) => largest >= size) ?? scales[0];
  }

  function digits(number) {
    return number.toLocaleString("en", { maximumSignificantDigits: 4 }).replace("-", "−");
  }

  function readable(value, unit) {
    if (value === null || value === undefined || Number.isNaN(value)) return "–";
    const [size, symbol] = scale(unit, [value]);
    return digits(value / size) + (symbol ? " " + symbol : "");
  }

  function element(name, text, attributes = {}) {
    const node = document.createElement(name);
    if (text !== undefined) node.textContent = text;
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    return node;
  }

  // Build a tooltip: a title, and lines of name, value and color.
  function tip(title, rows) {
    const box = element("div", undefined, { class: "tip" });
    box.append(element("strong", title));
    const list = box.appendChild(element("table"));
    for (const [name, value, ink] of rows) {
      const row = list.insertRow();
      const cell = row.insertCell();
      if (ink) cell.append(Object.assign(element("i"), { style: "background:" + ink }));
      cell.append(name);
      row.insertCell().textContent = value;
    }
    return box;
  }

  // Write into a note for paper how many more of something the file has; without any the note is hidden.
  function countInFile(note, count, name) {
    note.textContent = `${count} more ${name}${count > 1 ? "s are" : " is"} in the file.`;
    note.hidden = !count;
    return note;
  }

  const near = new IntersectionObserver((entries) => {
    for (const entry of entries) if (entry.isIntersecting) drawNow(entry.target);
  }, { rootMargin: "400px" });

  function drawNow(target) {
    const draw = waiting.get(target);
    if (!draw) return;
    waiting.delete(target);
    near.unobserve(target);
    draw();
  }

  function whenNear(target, draw) {
    waiting.set(target, draw);
    near.observe(target);
  }

  function chart(target, option) {
    let instance = null, drawnWidth = null;
    const redraw = () => {
      if (!instance) return;
      instance.setOption(themedOption(option()), { notMerge: true });
    };
    whenNear(target, () => {
      instance = echarts.init(target, null, { renderer: "svg" });
      redraw();
      drawnWidth = target.clientWidth;
      new ResizeObserver(() => {
        if (target.clientWidth === drawnWidth || !target.clientWidth) return;
        drawnWidth = target.clientWidth;
        instance.resize();
        redraw();
      }).observe(target);
    });
    themed.push(() => { if (printing) { drawNow(target); instance?.resize(); } redraw(); });
    return { redraw, get instance() { return instance; } };
  }

  function themedOption(option) {
    const ink = color("ink");
    return {
      backgroundColor: "transparent",
      animation: false,
      aria: { enabled: false },
      textStyle: { color: ink, fontFamily: getComputedStyle(document.body).fontFamily, fontSize: 12 },
      ...option,
      tooltip: {
        confine: true, backgroundColor: color("raised"), borderColor: color("line"),
        textStyle: { color: ink, fontSize: 12 }, transitionDuration: 0, ...option.tooltip,
      },
    };
  }

  const onTheme = (redraw) => themed.push(redraw);
  const onRun = (show) => picking.push(show);
  const redrawAll = () => themed.forEach((redraw) => redraw());

  // A link to a part unfolds it.
  function unfoldTarget() {
    const target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (target) for (const fold of target.querySelectorAll(":scope > details.fold")) fold.open = true;
    if (target?.tagName !== "DETAILS") return;
    for (let node = target; node; node = node.parentElement) if (node.tagName === "DETAILS") node.open = true;
    target.scrollIntoView();
  }
  addEventListener("hashchange", unfoldTarget);
  addEventListener("DOMContentLoaded", () => {
    unfoldTarget();
    document.getElementById("unfold")?.addEventListener("click", () => {
      for (const fold of document.querySelectorAll("details.fold")) fold.open = true;
    });
  });

  dark.addEventListener("change", redrawAll);
  addEventListener("beforeprint", () => {
    printing = true;
    root.classList.add("printing");
    [...waiting.keys()].filter((target) => target.offsetParent).forEach(drawNow);
    redrawAll();
  });
  addEventListener("afterprint", () => {
    printing = false;
    root.classList.remove("printing");
    redrawAll();
  });

  // Show only what concerns the selected run. Elements name runs by their position in the selector: names are long.
  function pick(run, position) {
    const all = run === null;
    root.classList.toggle("picked", !all); // paper then has the run, whatever there is of others
    const each = (selector, isHidden) => document.querySelectorAll(selector).forEach((item) => { item.hidden = isHidden(item); });
    const isOf = (positions) => positions.split(" ").includes(position);
    if (!all) document.querySelectorAll("li[data-count]").forEach((item) => { if (isOf(item.parentElement.dataset.only)) complete(item); });
    each("[data-run]", (item) => !all && item.dataset.run !== run);
    each("[data-only]", (item) => !isOf(item.dataset.only));
    each("[data-all]", () => !all);
    each("[data-picked]", () => all);
    each("li.check", (check) => !check.querySelector("li:not([hidden])"));
    if (!all) document.querySelectorAll("li.check:not([hidden]) > details").forEach((details) => { details.open = true; });
    each(".findings, details:has(> .findings)", (list) => !list.querySelector("li:not([hidden])"));
    each("article.part", (part) => {
      if (all) return false;
      if (part.dataset.runs !== undefined) return !isOf(part.dataset.runs);
      const own = [...part.querySelectorAll("[data-run]")];
      return own.length > 0 && own.every((item) => item.hidden);
    });
    each("main > section:has(> article.part)", (section) => !section.querySelector("article.part:not([hidden])"));
    each("nav li", (link) => document.querySelector(link.firstElementChild.hash).hidden);
    showAbsent(run);
    for (const show of picking) show(run); // includes listeners added meanwhile, by tables not opened yet
  }

  // Complete a run's finding with the advice and the rule, which only the finding of all runs contains.
  function complete(item) {
    const whole = item.closest("article").querySelector(`[data-all] [data-finding="${item.dataset.finding}"]`);
    if (!whole || item.querySelector(".why")) return;
    const advice = item.querySelector(".advice") ? null : whole.querySelector(".advice");
    const rule = whole.querySelector(".why").cloneNode(true);
    rule.querySelector("span").textContent = item.dataset.count;
    for (const part of [advice?.cloneNode(true), rule]) if (part) item.append(" ", part);
  }

  // List the hidden parts, and the command whose report explains why they have no data.
  function showAbsent(run) {
    const absent = [...document.querySelectorAll("article.part[hidden] h3")].map((head) => head.textContent);
    const holder = document.getElementById("absent");
    holder.replaceChildren();
    if (!absent.length) return;
    const details = holder.appendChild(element("details", undefined, { class: "cut" }));
    const parts = absent.length === 1 ? "1 part has" : absent.length + " parts have";
    details.append(element("summary", parts + " no data of this run"), element("p", absent.join(" · ")));
    const how = details.appendChild(element("p", "How to capture what they need is in the report of this run alone: "));
    how.append(element("code", document.getElementById("run").dataset.command + " --run " + run));
  }

  document.getElementById("run")?.addEventListener("change", (event) => {
    pick(event.target.value || null, String(event.target.selectedIndex - 1));
  });

  return { json, color, scale, digits, readable, element, tip, countInFile, whenNear, chart, onTheme, onRun };
})();
