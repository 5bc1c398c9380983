// Axis limits that panels of a figure share: those of one run always, those of several if none becomes too small to read.
"use strict";
tracelab.limits = (() => {
  const MOST_RATIO = 4, STEPS = [1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10];

  function rounded(value) {
    const power = 10 ** Math.floor(Math.log10(value));
    return power * STEPS.find((step) => step * power >= value * (1 - 1e-9));
  }

  const farthest = (values) => Math.max(0, ...values.map(Math.abs));
  // Return the value farthest from 0 of all panels; undefined if those of the panels differ too much to compare.
  function shared(values, unit, compared) {
    const most = values.map(farthest).filter((each) => each > 0);
    const isAlike = compared || unit === "%" || Math.max(...most) <= MOST_RATIO * Math.min(...most);
    return most.length && isAlike ? Math.max(...most) : undefined;
  }

  function lengthsOf(spec, panel, read) {
    const columns = panel.y.map((y) => spec.y[y].at);
    const numbers = panel.rows.map((row) => columns.map((at) => read.number(row, at) ?? 0));
    return spec.kind === "stacked" ? numbers.map((each) => each.reduce((sum, value) => sum + value, 0)) : numbers.flat();
  }

  const known = (rows, at, read) => rows.map((row) => read.number(row, at)).filter((value) => value !== null);
  // Return the heights in a panel; the parts of a timeline's bin are on top of each other.
  function upsOf(spec, panel, read) {
    const heights = panel.series.map((each) => known(each.rows, spec.y[each.y].at, read));
    if (spec.kind !== "timeline") return heights.flat();
    return heights.reduce((sums, each) => each.map((value, index) => value + (sums[index] ?? 0)), []);
  }

  const acrossOf = (spec, panel, read) => panel.series.flatMap((each) => known(each.rows, spec.x.at, read));

  // Compute the limits of an axis that some panels share, or undefined.
  const ENDS = {
    y: (spec, panels, read, compared) => {
      if (panels.some((panel) => panel.log?.[1])) return undefined;
      const values = panels.map((panel) => (panel.rows ? lengthsOf : upsOf)(spec, panel, read));
      const most = shared(values, spec.y[panels[0].y[0]].unit, compared);
      if (most === undefined) return undefined;
      const least = Math.min(0, ...values.flat());
      return { most: values.flat().some((value) => value > 0) ? rounded(Math.max(...values.flat())) : 0, least: least && -rounded(-least) };
    },
    x: (spec, panels, read, compared) => {
      if (panels.some((panel) => panel.rows || panel.log[0] !== panels[0].log[0])) return undefined;
      const values = panels.map((panel) => acrossOf(spec, panel, read));
      const most = panels[0].log[0] ? Math.max(...values.flat()) : shared(values, spec.x.unit, compared);
      return most === undefined ? undefined : { least: Math.min(...values.flat()), most };
    },
  };

  function groupBy(panels, key) {
    const groups = new Map(panels.map((panel) => [key(panel), []]));
    for (const panel of panels) groups.get(key(panel)).push(panel);
    return [...groups.values()];
  }

  // Map each panel to its axis limits: shared by all panels of its columns, else by those of its run or sweep.
  return (spec, read) => {
    const limits = new Map(spec.panels.map((panel) => [panel, {}]));
    if (["pairs", "roofline", "grid"].includes(spec.kind)) return limits;
    for (const axis of ["x", "y"]) {
      const share = (panels, compared) => {
        const ends = panels.length > 1 ? ENDS[axis](spec, panels, read, compared) : undefined;
        for (const panel of panels) limits.get(panel)[axis] = ends;
        return ends !== undefined;
      };
      for (const group of groupBy(spec.panels, (panel) => panel.y.join(" "))) {
        if (!share(group, spec.signed)) groupBy(group, (panel) => panel.run).forEach((panels) => share(panels, axis === "y"));
      }
    }
    return limits;
  };
})();
