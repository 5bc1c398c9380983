// Charts of the answers: each figure names rows of the table below it; lengths and places are the table's exact values.
"use strict";
{
  const FIRST_PANELS = 4, TOLD_COLUMNS = 16;

  // A figure's rows: exact values for lengths, the cells' texts for what is read.
  function reader(table) {
    const rows = table.asAnswered;
    const heads = [...table.tHead.rows[0].cells].map((head) => head.textContent);
    const run = heads.indexOf("run");
    const text = (cell) => cell.className && cell.title ? cell.title : cell.textContent;
    return {
      text: (row, at) => rows[row].cells[at].textContent,
      number: (row, at) => tracelab.numberOf(rows[row].cells[at]),
      ofRun: (row, picked) => picked === null || run < 0 || text(rows[row].cells[run]) === picked,
      // Every cell of a row, those that the chart shows first, with the exact value where the text rounds it.
      told: (row, first) => {
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

  function drawPanel(spec, panel, read, holder) {
    const box = tracelab.element("div", undefined, { class: "panel" });
    if (panel.title) box.append(tracelab.element("h4", panel.title));
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
    const drawn = tracelab.chart(place, () => option(spec, panel, read, picked, place.clientWidth));
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
    const read = reader(figure.parentElement.querySelector(".data table"));
    const holder = figure.appendChild(tracelab.element("div", undefined, { class: "panels" }));
    const panels = [];
    let next = 0;
    const more = tracelab.element("button", "", { type: "button", class: "more" });
    const draw = (count) => {
      const wanted = spec.panels.slice(next, next + count);
      next += wanted.length;
      panels.push(...wanted.map((panel) => drawPanel(spec, panel, read, holder)));
      more.hidden = next >= spec.panels.length;
      more.textContent = `Draw ${spec.panels.length - next} more charts`;
    };
    more.addEventListener("click", () => draw(Infinity));
    draw(spec.panels.length <= FIRST_PANELS + 2 ? Infinity : FIRST_PANELS);
    figure.append(more);
    holder.classList.toggle("single", spec.panels.length === 1);
    tracelab.onRun((run) => {
      if (run !== null) draw(Infinity);
      for (const panel of panels) panel.show(run);
    });
  }
}
