// What panels of a figure share: the ends of their axes, where that lets none of them shrink to nothing.
"use strict";
tracelab.limits = (() => {
  const ALIKE = 4, STEPS = [1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10];

  function rounded(value) {
    const power = 10 ** Math.floor(Math.log10(value));
    return power * STEPS.find((step) => step * power >= value * (1 - 1e-9));
  }

  // Of each panel the largest value of an axis; undefined where a panel differs too much from another.
  function shared(values, unit) {
    const most = values.map((each) => Math.max(0, ...each)).filter((each) => each > 0);
    const isAlike = unit === "%" || Math.max(...most) <= ALIKE * Math.min(...most);
    return most.length && isAlike && !values.flat().some((value) => value < 0) ? Math.max(...most) : undefined;
  }

  function lengthsOf(spec, panel, read) {
    const columns = panel.y.map((y) => spec.y[y].at);
    const numbers = panel.rows.map((row) => columns.map((at) => read.number(row, at) ?? 0));
    return spec.kind === "stacked" ? numbers.map((each) => each.reduce((sum, value) => sum + value, 0)) : numbers.flat();
  }

  const known = (rows, at, read) => rows.map((row) => read.number(row, at)).filter((value) => value !== null);
  const upsOf = (spec, panel, read) => panel.series.flatMap((each) => known(each.rows, spec.y[each.y].at, read));
  const acrossOf = (spec, panel, read) => panel.series.flatMap((each) => known(each.rows, spec.x.at, read));

  function limitOf(spec, panels, read) {
    const unit = spec.y[panels[0].y[0]].unit;
    if (panels[0].rows) {
      const most = shared(panels.map((panel) => lengthsOf(spec, panel, read)), unit);
      return most === undefined ? undefined : { y: { most: rounded(most) } };
    }
    if (panels.some((panel) => panel.log[0] !== panels[0].log[0] || panel.log[1])) return undefined;
    const up = shared(panels.map((panel) => upsOf(spec, panel, read)), unit);
    const places = panels.map((panel) => acrossOf(spec, panel, read));
    const right = shared(places, spec.x.unit);
    if (up === undefined && right === undefined) return undefined;
    return {
      y: up === undefined ? undefined : { most: rounded(up) },
      x: right === undefined ? undefined : { least: Math.min(...places.flat()), most: right },
    };
  }

  // By panel: the ends of its axes, where it has some in common with others of the same columns, or with those of its run.
  return (spec, read) => {
    const limits = new Map();
    if (["pairs", "roofline", "grid"].includes(spec.kind)) return limits;
    const share = (panels) => {
      const limit = panels.length > 1 ? limitOf(spec, panels, read) : undefined;
      if (limit) for (const panel of panels) limits.set(panel, limit);
      return limit !== undefined;
    };
    const alike = new Map(spec.panels.map((panel) => [panel.y.join(" "), []]));
    for (const panel of spec.panels) alike.get(panel.y.join(" ")).push(panel);
    for (const panels of alike.values()) {
      if (share(panels)) continue;
      const ofRun = new Map(panels.map((panel) => [panel.run, []]));
      for (const panel of panels) ofRun.get(panel.run).push(panel);
      ofRun.forEach(share);
    }
    return limits;
  };
})();
