// The report's core: theme, run picker, charts that are drawn when they come near. Everything shown is set as text.
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
    const found = getComputedStyle(probe).color;
    probe.remove();
    return found;
  }

  // The unit in which the largest of the values has one to three digits before the point.
  function scale(unit, values) {
    const scales = SCALES[unit];
    if (!scales) return [1, unit];
    const largest = Math.max(0, ...values.map(Math.abs));
    return scales.findLast(([size]) => largest >= size) ?? scales[0];
  }

  function digits(number) {
    return number.toLocaleString("en", { maximumSignificantDigits: 4 });
  }

  function readable(value, unit) {
    if (value === null || value === undefined || Number.isNaN(value)) return "–";
    const [size, symbol] = scale(unit, [value]);
    return digits(value / size) + (symbol ? " " + symbol : "");
  }

  function element(name, text, attributes = {}) {
    const made = document.createElement(name);
    if (text !== undefined) made.textContent = text;
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    return made;
  }

  // What a tooltip shows: a title and lines of name, value and colour.
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
    let drawn = null, seen = null;
    const redraw = () => {
      if (!drawn) return;
      drawn.setOption(themedOption(option()), { notMerge: true });
    };
    whenNear(target, () => {
      drawn = echarts.init(target, null, { renderer: "svg" });
      redraw();
      seen = target.clientWidth;
      new ResizeObserver(() => {
        if (target.clientWidth === seen || !target.clientWidth) return;
        seen = target.clientWidth;
        drawn.resize();
        redraw();
      }).observe(target);
    });
    themed.push(() => { if (printing) { drawNow(target); drawn?.resize(); } redraw(); });
    return { redraw, get instance() { return drawn; } };
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

  // What a run that is picked leaves of the page. Runs are named by their places in the control: names are long.
  function pick(run, place) {
    const all = run === null;
    const each = (selector, isHidden) => document.querySelectorAll(selector).forEach((item) => { item.hidden = isHidden(item); });
    const isOf = (places) => places.split(" ").includes(place);
    if (!all) document.querySelectorAll("li[data-held]").forEach((item) => { if (isOf(item.parentElement.dataset.only)) complete(item); });
    each("[data-run]", (item) => !all && item.dataset.run !== run);
    each("[data-only]", (item) => !isOf(item.dataset.only));
    each("[data-all]", () => !all);
    each("[data-picked]", () => all);
    each(".findings, details:has(> .findings)", (list) => !list.querySelector("li:not([hidden])"));
    each("article.part", (part) => {
      if (all) return false;
      if (part.dataset.runs !== undefined) return !isOf(part.dataset.runs);
      const own = [...part.querySelectorAll("[data-run]")];
      return own.length > 0 && own.every((item) => item.hidden);
    });
    each("main > section:has(> article.part)", (section) => !section.querySelector("article.part:not([hidden])"));
    each("nav li", (link) => document.querySelector(link.firstElementChild.hash).hidden);
    tellAbsent(run);
    for (const show of picking) show(run); // and those that come while it runs: tables not opened yet
  }

  // A run's sentence with what to try and the rule, which are written once, in the sentence of all runs.
  function complete(item) {
    const whole = item.closest("article").querySelector(`[data-all] [data-say="${item.dataset.say}"]`);
    if (!whole || item.querySelector("small")) return;
    const advice = item.querySelector(".try") ? null : whole.querySelector(".try");
    const rule = whole.querySelector("small").cloneNode(true);
    rule.querySelector("span").textContent = item.dataset.held;
    for (const part of [advice?.cloneNode(true), rule]) if (part) item.append(" ", part);
  }

  // The parts that are left out, with a way to ask why.
  function tellAbsent(run) {
    const absent = [...document.querySelectorAll("article.part[hidden] h3")].map((head) => head.textContent);
    const holder = document.getElementById("absent");
    holder.replaceChildren();
    if (!absent.length) return;
    const told = holder.appendChild(element("details", undefined, { class: "cut" }));
    const parts = absent.length === 1 ? "1 part has" : absent.length + " parts have";
    told.append(element("summary", parts + " nothing to show of this run"), element("p", absent.join(" · ")));
    const how = told.appendChild(element("p", "Its own report says how to capture what they need: "));
    how.append(element("code", "tracelab report --run " + run));
  }

  document.getElementById("run")?.addEventListener("change", (event) => {
    pick(event.target.value || null, String(event.target.selectedIndex - 1));
  });

  return { json, color, scale, digits, readable, element, tip, whenNear, chart, onTheme, onRun };
})();
