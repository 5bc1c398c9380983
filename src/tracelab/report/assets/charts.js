// Charts of query results: a figure refers to rows of the table below it, and draws their exact values.
"use strict";
{
  const FIRST_PANELS = 4, TIP_COLUMNS = 16;
  const UNIT_WORDS = { ns: "ns", B: "bytes" };

  // Access a figure's rows: exact values to draw, the cells' texts to read. Rows beyond the table have x, the y columns and
  // the number of the run; there, long numbers are text.
  function reader(table, spec) {
    const rows = table.resultRows, beyond = spec.beyond ?? [], runs = spec.runs ?? [];
    const columns = [spec.x, ...spec.y], places = columns.map((column) => column.at);
    const heads = [...table.tHead.rows[0].cells].map((head) => head.textContent);
    const run = heads.indexOf("run");
    const text = (cell) => cell.className && cell.title ? cell.title : cell.textContent;
    const isBeyond = (row) => row >= rows.length;
    const value = (row, at) => beyond[row - rows.length][places.indexOf(at)];
    const runOf = (row) => isBeyond(row) ? runs[beyond[row - rows.length].at(-1)] : text(rows[row].cells[run]);
    function numberOf(row, at) {
      if (!isBeyond(row)) return tracelab.numberOf(rows[row].cells[at]);
      const number = value(row, at) === null ? NaN : Number(value(row, at));
      return Number.isNaN(number) ? null : number;
    }
    function textOf(row, at) {
      if (!isBeyond(row)) return rows[row].cells[at].textContent;
      const number = numberOf(row, at);
      return number === null ? value(row, at) ?? "–" : tracelab.readable(number, columns[places.indexOf(at)].unit);
    }
    function exactOf(row, at) {
      const unit = columns[places.indexOf(at)].unit, exact = grouped(String(value(row, at))), text = textOf(row, at);
      const whole = UNIT_WORDS[unit] ? `${exact} ${UNIT_WORDS[unit]}` : exact;
      return numberOf(row, at) === null || [whole, exact].includes(text) ? text : `${text} (${whole})`;
    }
    return {
      text: textOf,
      number: numberOf,
      ofRun: (row, picked) => picked === null || run < 0 || runOf(row) === picked,
      // Return every cell of a row, the chart's columns first, with the exact value if the text is rounded.
      tipRows: (row, first) => {
        if (isBeyond(row)) {
          const more = places.filter((at) => !first.includes(at) && value(row, at) !== null);
          return [...first, ...more].map((at) => [heads[at], exactOf(row, at)]);
        }
        const order = [...first, ...heads.keys()].filter((at, place, all) => all.indexOf(at) === place);
        return order.slice(0, TIP_COLUMNS).map((at) => {
          const cell = rows[row].cells[at];
          const exact = !cell.className && cell.title ? `${cell.textContent} (${grouped(cell.title)})` : text(cell);
          return [heads[at], exact];
        });
      },
    };
  }

  const grouped = (exact) => exact.replace(/^-?\d+/, (digits) => digits.replace(/\B(?=(\d{3})+$)/g, ","));

  function rowsOf(panel) {
    if (panel.rows) return panel.rows;
    return panel.series ? panel.series.flatMap((each) => each.rows) : panel.cells.flatMap(([, , rows]) => rows);
  }

  function drawPanel(spec, panel, read, holder, limits) {
    const box = tracelab.element("div", undefined, { class: "panel" });
    if (panel.title) box.append(tracelab.element("h4", panel.title));
    if (panel.note) box.append(tracelab.element("p", panel.note, { class: "cut" }));
    const names = panel.y.map((y) => spec.y[y].name).join(", ");
    const place = box.appendChild(tracelab.element("div", undefined, {
      class: "drawing", role: "img", "aria-label": `${names} over ${spec.x.name}${panel.title ? ", " + panel.title : ""}`,
    }));
    let picked = null;
    const visibleRows = () => rowsOf(panel).filter((row) => read.ofRun(row, picked));
    const beyond = box.appendChild(tracelab.element("p", "", { class: "paper cut" }));
    const size = () => {
      place.style.height = tracelab.drawings.heightOf(spec, panel, visibleRows().length, place.clientWidth) + "px";
      tracelab.countInFile(beyond, tracelab.drawings.barsBeyond(panel, visibleRows().length), "bar");
    };

    holder.append(box);
    size();
    const option = tracelab.drawings.optionOf(spec, panel);
    const chart = tracelab.chart(place, () => option(spec, panel, read, picked, place.clientWidth, limits.get(panel)));
    const show = (run) => {
      picked = run;
      box.hidden = visibleRows().length === 0;
      if (box.hidden) return;
      size();
      chart.instance?.resize();
      chart.redraw();
    };
    return { box, show };
  }

  for (const figure of document.querySelectorAll("figure[data-chart]")) {
    const spec = JSON.parse(figure.dataset.chart);
    const read = reader(figure.parentElement.querySelector(".data table"), spec);
    const limits = tracelab.limits(spec, read);
    const holder = figure.appendChild(tracelab.element("div", undefined, { class: "panels" }));
    const panels = [];
    let next = 0;
    const more = tracelab.element("button", "", { type: "button", class: "more" });
    const undrawn = tracelab.element("p", "", { class: "paper cut" });
    const draw = (count) => {
      const batch = spec.panels.slice(next, next + count);
      next += batch.length;
      panels.push(...batch.map((panel) => drawPanel(spec, panel, read, holder, limits)));
      more.hidden = next >= spec.panels.length;
      more.textContent = `Draw ${spec.panels.length - next} more charts`;
      tracelab.countInFile(undrawn, spec.panels.length - next, "chart");
    };
    more.addEventListener("click", () => draw(Infinity));
    draw(spec.panels.length <= FIRST_PANELS + 2 ? Infinity : FIRST_PANELS);
    figure.append(more, undrawn);
    if (spec.signed) figure.append(tracelab.element("p", "▲, hatched: more than before. ▼: less. All panels have one scale.", { class: "cut" }));
    if (spec.note) figure.append(tracelab.element("p", spec.note, { class: "cut" }));
    holder.classList.toggle("single", spec.panels.length === 1);
    tracelab.onRun((run) => {
      if (run !== null) draw(Infinity);
      for (const panel of panels) panel.show(run);
    });
  }
}
