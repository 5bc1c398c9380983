// Bins of time as they are embedded: which one an instant is in, and what some of them hold together.
"use strict";
tracelab.bins = (() => {
  // Differences added up again; what is not known stays so.
  function undone(differences) {
    let value = 0;
    return differences.map((by) => by === null ? null : value += by);
  }

  function binOf(run, at) {
    let low = 0, high = run.edges.length - 1;
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (run.edges[middle] <= at) low = middle; else high = middle;
    }
    return low;
  }

  function sum(values, start, end) {
    let total = 0;
    if (values) for (let at = start; at < end; at++) total += values[at] ?? 0;
    return total;
  }

  function most(values, start, end) {
    let found = null;
    if (values) for (let at = start; at < end; at++) if (values[at] !== null && (found === null || values[at] > found)) found = values[at];
    return found;
  }

  return { undone, binOf, sum, most };
})();
