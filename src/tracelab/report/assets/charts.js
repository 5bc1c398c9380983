// Charts of the answers: each figure names rows of the table below it; lengths and places are the table's exact values.
"use strict";
{
  const FIRST_PANELS = 4, TOLD_COLUMNS = 16;
  const SPELLED = { ns: "ns", B: "bytes" };

  // A figure's rows: exact values for lengths, the cells' texts for what is read. Of rows beyond the table there are x, the
  // columns of y, and the number of the run; a long number and a text are both text.
  function reader(table, spec) {
    const rows = table.asAnswered, beyond = spec.beyond ?? [], runs = spec.runs ?? [];
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
      const unit = columns[places.indexOf(at)].unit, exact = grouped(String(value(row, at))), shown = textOf(row, at);
      const whole = SPELLED[unit] ? `${exact} ${SPELLED[unit]}` : exact;
      return numberOf(row, at) === null || [whole, exact].includes(shown) ? shown : `${shown} (${whole})`;
    }
    return {
      text: textOf,
      number: numberOf,
      ofRun: (row, picked) => picked === null || run < 0 || runOf(row) === picked,
      // Every cell of a row, those that the chart shows first, with the exact value where the text rounds it.
      told: (row, first) => {
        if (isBeyond(row)) {
          const more = places.filter((at) => !first.includes(at) && value(row, at) !== null);
          return [...first, ...more].map((at) => [heads[at], exactOf(row, at)]);
        }
        const order = [...first, ...heads.keys()].filter((at, place, all) => all.indexOf(at) === place);
        return order.slice(0, TOLD_COLUMNS).map((at) => {
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
    const held = () => rowsOf(panel).filter((row) => read.ofRun(row, picked));
    const size = () => { place.style.height = tracelab.drawings.heightOf(spec, panel, held().length, place.clientWidth) + "px"; };

    holder.append(box);
    size();
    const option = tracelab.drawings.optionOf(spec, panel);
    const drawn = tracelab.chart(place, () => option(spec, panel, read, picked, place.clientWidth, limits.get(panel)));
    const show = (run) => {
      picked = run;
      box.hidden = held().length === 0;
      if (box.hidden) return;
      size();
      drawn.instance?.resize();
      drawn.redraw();
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
    const draw = (count) => {
      const wanted = spec.panels.slice(next, next + count);
      next += wanted.length;
      panels.push(...wanted.map((panel) => drawPanel(spec, panel, read, holder, limits)));
      more.hidden = next >= spec.panels.length;
      more.textContent = `Draw ${spec.panels.length - next} more charts`;
    };
    more.addEventListener("click", () => draw(Infinity));
    draw(spec.panels.length <= FIRST_PANELS + 2 ? Infinity : FIRST_PANELS);
    figure.append(more);
    if (spec.note) figure.append(tracelab.element("p", spec.note, { class: "cut" }));
    holder.classList.toggle("single", spec.panels.length === 1);
    tracelab.onRun((run) => {
      if (run !== null) draw(Infinity);
      for (const panel of panels) panel.show(run);
    });
  }
}
