// Embedded time bins: find the bin of an instant, and aggregate ranges of bins.
"use strict";
tracelab.bins = (() => {
  // Add differences up again; null stays null.
  function accumulate(differences) {
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
    let highest = null;
    if (values) for (let at = start; at < end; at++) if (values[at] !== null && (highest === null || values[at] > highest)) highest = values[at];
    return highest;
  }

  return { accumulate, binOf, sum, most };
})();
