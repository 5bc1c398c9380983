// Tables: a click on a heading sorts, typing filters, and the run selector hides rows of other runs.
"use strict";
{
  const ROWS_WORTH_A_FILTER = 8;
  const NEXT = { none: "descending", descending: "ascending", ascending: "none" };
  const NEXT_OF_TEXT = { none: "ascending", ascending: "descending", descending: "none" };
  const collator = new Intl.Collator("en", { numeric: true });

  // Return the number of a cell without a class, from its title if it has one, else from its text; null for other cells.
  tracelab.numberOf = (cell) => cell.className ? null : Number((cell.title || cell.textContent).split(" ")[0].replaceAll(",", ""));

  // Return a cell's value for sorting: a number, a text, or null if it is empty.
  function valueOf(cell) {
    if (!cell.className) return tracelab.numberOf(cell);
    return cell.classList.contains("u") ? null : cell.textContent;
  }

  function compare(one, other) {
    if (one === null || other === null) return 0;
    return typeof one === "number" ? one - other : collator.compare(one, other);
  }

  function sortBy(body, rows, at, direction) {
    const keyed = rows.map((row) => [valueOf(row.cells[at]), row]);
    const sign = direction === "descending" ? -1 : 1;
    if (direction !== "none") {
      keyed.sort(([one], [other]) => (one === null) - (other === null) || sign * compare(one, other));
    }
    body.append(...keyed.map(([, row]) => row));
  }

  function sortable(table, rows) {
    const heads = [...table.tHead.rows[0].cells];
    heads.forEach((head, at) => {
      const button = tracelab.element("button", undefined, { type: "button" });
      button.append(...head.childNodes);
      head.append(button);
      head.setAttribute("aria-sort", "none");
      button.addEventListener("click", () => {
        const next = (head.classList.contains("n") ? NEXT : NEXT_OF_TEXT)[head.getAttribute("aria-sort")];
        for (const other of heads) other.setAttribute("aria-sort", "none");
        head.setAttribute("aria-sort", next);
        sortBy(table.tBodies[0], rows, at, next);
      });
    });
  }

  function filterable(table, rows) {
    const box = tracelab.element("p", undefined, { class: "filter" });
    const label = box.appendChild(tracelab.element("label", "Filter "));
    const input = label.appendChild(tracelab.element("input", undefined, { type: "search", autocomplete: "off" }));
    const status = box.appendChild(tracelab.element("span", "", { "aria-live": "polite" }));
    const texts = rows.map((row) => row.textContent.toLowerCase());
    const at = [...table.tHead.rows[0].cells].findIndex((head) => head.textContent === "run");
    let run = null;
    const isOfRun = (row) => run === null || at < 0 || row.cells[at].title === run || row.cells[at].textContent === run;
    const show = () => {
      const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
      let count = 0;
      rows.forEach((row, index) => {
        row.hidden = !(isOfRun(row) && words.every((word) => texts[index].includes(word)));
        count += !row.hidden;
      });
      status.textContent = count === rows.length ? "" : ` ${count} of ${rows.length} rows`;
      summary.textContent = run === null || at < 0 ? whole : "Table: " + ofRun();
    };
    const summary = table.closest("details").querySelector("summary"), whole = summary.textContent;
    const ofRun = () => {
      const count = rows.filter(isOfRun).length;
      if (!count) return "this table has no rows of this run";
      return `${count.toLocaleString("en")} row${count === 1 ? "" : "s"} of this run`;
    };
    input.addEventListener("input", show);
    tracelab.onRun((picked) => { run = picked; show(); });
    if (rows.length >= ROWS_WORTH_A_FILTER) table.parentElement.before(box);
  }

  for (const table of document.querySelectorAll(".data table")) {
    const rows = [...table.tBodies[0].rows];
    table.resultRows = rows; // charts refer to rows by position in the result, in any sort order of the table
    let isReady = false;
    const prepare = () => {
      if (isReady) return;
      isReady = true;
      sortable(table, rows);
      filterable(table, rows);
    };
    const details = table.closest("details");
    if (details.open) prepare();
    else details.addEventListener("toggle", prepare, { once: true });
    tracelab.onRun(prepare); // registers the filter's listener, so the selection applies to tables not opened yet
  }
}
