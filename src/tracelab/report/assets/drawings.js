// ECharts options for each kind of chart, from a panel, the figure's columns and the table's rows.
"use strict";
tracelab.drawings = (() => {
  const BARS_AT_ONCE = 30, BAR = 22, POINTS_WORTH_A_SLIDER = 40, LEGEND_LINES = 4;

  const NAMED = [
    [/^(exposed_comm|comm)_ns$/, "comm"], [/^compute_ns$/, "compute"], [/^idle/, "idle"], [/^exposed_memory_ns$/, "memory"],
  ];

  function ink(column, index) {
    const named = NAMED.find(([pattern]) => pattern.test(column.column));
    return tracelab.color(named ? named[1] : index);
  }

  function valueAxis(column, values, name, log = false) {
    const [size, symbol] = tracelab.scale(column.unit, values);
    return {
      type: log ? "log" : "value",
      name: name + (symbol ? ` (${symbol})` : ""),
      nameLocation: "middle",
      nameGap: 28,
      nameTextStyle: { color: tracelab.color("faint") },
      axisLabel: { color: tracelab.color("faint"), hideOverlap: true, formatter: (value) => tracelab.digits(value / size) },
      axisLine: { lineStyle: { color: tracelab.color("line") } },
      splitLine: { lineStyle: { color: tracelab.color("line") } },
    };
  }

  const GROUPS = { ns: "time", B: "size", "%": "share" };
  function axisName(columns, values) {
    if (columns.length === 1) return columns[0].name;
    const ends = columns.map((column) => column.name.split(" ").reverse());
    const differ = ends[0].findIndex((word, at) => ends.some((each) => each[at] !== word));
    const common = ends[0].slice(0, differ < 0 ? undefined : differ).reverse().join(" ");
    if (columns[0].unit === "" && common) return common;
    return GROUPS[columns[0].unit] ?? (columns[0].unit === "" && values.every(Number.isInteger) ? "count" : "");
  }
  const zoomColors = () => ({ textStyle: { color: tracelab.color("faint") }, borderColor: tracelab.color("line") });

  // Shorten the middle of a label: a kernel's name begins it, rank and GPU end it.
  function middle(label, most) {
    const tail = Math.round(most * 0.55);
    return label.length <= most ? label : `${label.slice(0, Math.round(most) - tail - 1)}…${label.slice(-tail)}`;
  }

  // Return the legend, in as many lines as its names need (paper has no paging), and its height.
  function legend(names, width) {
    const shown = names.length > 1;
    let lines = shown ? 1 : 0, taken = 0;
    for (const name of names) {
      const needs = 6.6 * name.length + 30;
      if (taken && taken + needs > width) { lines += 1; taken = 0; }
      taken += needs;
    }
    const many = lines > LEGEND_LINES;
    const option = {
      show: shown, type: many ? "scroll" : "plain", top: 0, left: 0, itemWidth: 12, itemHeight: 12, itemGap: 8, data: names,
      textStyle: { color: tracelab.color("ink") },
    };
    return [option, shown ? 10 + 22 * (many ? 1 : lines) : 0];
  }

  function barOption(spec, panel, read, picked, width, limit) {
    const columns = panel.y.map((y) => spec.y[y]);
    const bars = panel.rows.map((row, index) => ({ row, label: panel.labels[index] })).filter(({ row }) => read.ofRun(row, picked));
    const stacked = spec.kind === "stacked";
    const totals = bars.map(({ row }) => columns.reduce((sum, column) => sum + (read.number(row, column.at) ?? 0), 0));
    const positive = totals.filter((total) => total > 0);
    const shared = stacked && positive.length > 1 && Math.max(...positive) > 2 * Math.min(...positive);
    const values = bars.flatMap(({ row }, bar) => columns.map((column) => stacked ? totals[bar] : read.number(row, column.at) ?? 0));
    const axis = shared
      ? valueAxis({ unit: "%" }, [1], "each bar as a whole")
      : valueAxis(columns[0], limit.y ? [limit.y.most, limit.y.least] : values, axisName(columns, values));
    const many = bars.length > BARS_AT_ONCE;
    const [names, top] = legend(columns.map((column) => column.name), width);
    return {
      grid: spec.signed
        ? { left: gutter(spec, width), right: 84, top: top + 6, bottom: 44 }
        : { left: 4, right: stacked ? 16 : 64, top: top + 6, bottom: 44, containLabel: true },
      legend: names,
      xAxis: { ...axis, min: shared ? 0 : limit.y?.least, max: shared ? 1 : limit.y?.most },
      yAxis: {
        type: "category", inverse: true, data: bars.map(({ label }) => label), axisTick: { show: false },
        axisLine: { lineStyle: { color: tracelab.color("line") } },
        axisLabel: { color: tracelab.color("ink"), interval: 0, formatter: (label) => middle(label, mostOf(width)) },
      },
      dataZoom: many ? [{ type: "slider", yAxisIndex: 0, width: 14, right: 2, startValue: 0, endValue: BARS_AT_ONCE - 1, ...zoomColors() }] : [],
      tooltip: {
        trigger: "axis", axisPointer: { type: "shadow" },
        formatter: ([first]) => {
          const bar = bars[first.dataIndex];
          const inks = new Map(columns.map((column, index) => [column.at, ink(column, panel.y[index])]));
          const at = columns.map((column) => column.at);
          return tracelab.tip(bar.label, read.tipRows(bar.row, at).map(([name, value], place) => [name, value, inks.get(at[place])]));
        },
      },
      series: columns.map((column, index) => ({
        type: "bar", name: column.name, stack: stacked ? "all" : undefined, barMaxWidth: BAR, barGap: "10%",
        color: ink(column, panel.y[index]), cursor: "default",
        data: bars.map(({ row }, bar) => {
          const value = read.number(row, column.at), length = shared && value !== null ? value / (totals[bar] || 1) : value;
          if (spec.signed && length) return { value: length, itemStyle: SIGNED[length > 0 ? "more" : "less"]() };
          return row === panel.others && !stacked ? { value: length, itemStyle: { color: tracelab.color("idle") } } : length;
        }),
        label: {
          show: !stacked, position: "right", color: tracelab.color("faint"), fontSize: 11,
          formatter: ({ dataIndex }) => signOf(spec, read.number(bars[dataIndex].row, column.at)) + read.text(bars[dataIndex].row, column.at),
        },
      })),
    };
  }

  // All panels leave the same room for labels, so that a length is the same time in each.
  const mostOf = (width) => Math.min(46, width * 0.06);
  const gutter = (spec, width) => 14 + 7.4 * Math.max(...spec.panels.flatMap((panel) => panel.labels.map((label) => middle(label, mostOf(width)).length)));

  // More than before is hatched, and both differ by the sign beside the bar, so that they differ without color, too.
  const SIGNED = {
    more: () => ({ color: tracelab.color(5), decal: { symbol: "rect", dashArrayX: [1, 0], dashArrayY: [2, 4], rotation: -Math.PI / 4, color: tracelab.color("paper") } }),
    less: () => ({ color: tracelab.color(0) }),
  };
  const signOf = (spec, value) => !spec.signed || !value ? "" : value > 0 ? "▲ " : "▼ ";

  function barHeight(spec, panel, count) {
    const each = spec.kind === "stacked" ? 28 : 12 + 15 * panel.y.length;
    return Math.min(count, BARS_AT_ONCE) * each + 60;
  }

  const NAMED_ABOVE = { nameLocation: "end", nameGap: 10, nameTextStyle: { align: "left", padding: [0, 0, 0, -24] } };

  function tipOfPoint(spec, series, read, { seriesIndex, dataIndex }) {
    const each = series[seriesIndex];
    return each ? tracelab.tip(each.name, read.tipRows(each.rows[dataIndex], [spec.y[each.y].at, spec.x.at])) : "";
  }

  // Return a line's color: its own if other panels have the same line, else by position.
  const inkOf = (each, index) => tracelab.color(each.ink ?? index);

  // Return the points of a line; in a curve, rows of the same x become their mean.
  function pointsOf(spec, each, read) {
    const points = [];
    for (const row of each.rows) {
      const x = read.number(row, spec.x.at), last = points.at(-1);
      if (spec.kind === "curves" && last?.x === x) last.rows.push(row); else points.push({ x, rows: [row] });
    }
    const y = (row) => read.number(row, spec.y[each.y].at);
    return points.map((point) => ({ ...point, y: point.rows.length > 1 ? point.rows.reduce((sum, row) => sum + y(row), 0) / point.rows.length : y(point.rows[0]) }));
  }

  function tipText(spec, each, read, point) {
    const column = spec.y[each.y];
    if (point.rows.length === 1) return read.tipRows(point.rows[0], [column.at])[0][1];
    return `${tracelab.readable(point.y, column.unit)}, the mean of ${point.rows.length} rows`;
  }

  // Build the tooltip of an instant: the value that holds there of a step line, the value at exactly that x of others.
  function tipOfLines(spec, panel, series, read, near) {
    if (!near.length) return "";
    const nearest = series[near[0].seriesIndex].points[near[0].dataIndex], at = nearest.x;
    const holds = panel.join === "step" ? (point) => point.x <= at : (point) => point.x === at;
    const lines = series.flatMap((each, index) => {
      const point = each.points.findLast(holds);
      return point === undefined ? [] : [[each.name, tipText(spec, each, read, point), inkOf(each, index)]];
    });
    return tracelab.tip(`${spec.x.name} ${read.tipRows(nearest.rows[0], [spec.x.at])[0][1]}`, lines);
  }

  function pointOption(spec, panel, read, picked, width, limit = {}) {
    const columns = panel.y.map((y) => spec.y[y]);
    const series = panel.series.map((each) => ({ ...each, rows: each.rows.filter((row) => read.ofRun(row, picked)) }));
    for (const each of series) each.points = pointsOf(spec, each, read);
    const rows = series.flatMap((each) => each.rows);
    const of = (at) => rows.map((row) => read.number(row, at)).filter((value) => value !== null);
    const ups = columns.flatMap((column) => of(column.at));
    const timed = panel.join !== "";
    const zoomed = rows.length > POINTS_WORTH_A_SLIDER;
    const [names, top] = legend(series.map((each) => each.name), width);
    const across = valueAxis(spec.x, of(spec.x.at), spec.x.name, panel.log[0]);
    return {
      grid: { left: 4, right: 24, top: top + 24, bottom: timed && zoomed ? 76 : 44, containLabel: true },
      legend: names,
      xAxis: {
        ...across, ...(timed ? { min: limit.x?.least ?? "dataMin", max: limit.x?.most ?? "dataMax" } : {}), logBase: panel.log[0] && timed ? 2 : 10,
        axisLabel: { ...across.axisLabel, ...(zoomed && timed ? { showMinLabel: false, showMaxLabel: false } : {}) },
      },
      yAxis: {
        ...valueAxis(columns[0], limit.y ? [limit.y.most] : ups, axisName(columns, ups), panel.log[1]),
        max: limit.y?.most, ...NAMED_ABOVE,
      },
      dataZoom: [
        { type: "inside", xAxisIndex: 0, zoomOnMouseWheel: "ctrl", moveOnMouseWheel: false, filterMode: "none" },
        { type: "inside", yAxisIndex: 0, zoomOnMouseWheel: "ctrl", moveOnMouseWheel: false, filterMode: "none", disabled: timed },
        { type: "slider", xAxisIndex: 0, height: 18, bottom: 6, show: timed && zoomed, filterMode: "none", labelFormatter: "", ...zoomColors() },
      ],
      tooltip: {
        trigger: timed ? "axis" : "item",
        formatter: (near) => timed ? tipOfLines(spec, panel, series, read, near) : tipOfPoint(spec, series, read, near),
      },
      series: series.map((each, index) => ({
        type: timed ? "line" : "scatter", name: each.name, color: inkOf(each, index),
        step: panel.join === "step" ? "end" : undefined, symbol: "circle", symbolSize: timed ? 6 : 8,
        showSymbol: panel.join !== "step" && each.rows.length < 60, itemStyle: { opacity: 0.85 },
        ...(spec.kind === "timeline" ? { stack: "bin", areaStyle: { opacity: 1 }, lineStyle: { width: 0 } } : { lineStyle: { width: 1.6 } }),
        data: each.points.map(({ x, y }) => [x, y]),
      })),
    };
  }

  // Grid: each cell shows the table's text; of several repeats, the first that is not ok.
  function gridOption(spec, panel, read, picked) {
    const column = spec.y[panel.y[0]];
    const cells = panel.cells.map(([across, down, rows]) => {
      const visible = rows.filter((row) => read.ofRun(row, picked));
      const first = visible.find((row) => read.text(row, column.at) !== "ok") ?? visible[0];
      return { across, down, visible, first };
    }).filter(({ first }) => first !== undefined);
    const numbers = cells.map(({ first }) => read.number(first, column.at)).filter((value) => value !== null);
    const isNumber = numbers.length > 0;
    const low = Math.min(0, ...numbers), high = Math.max(1, ...numbers);
    const axis = { type: "category", axisTick: { show: false }, splitArea: { show: false }, axisLine: { show: false } };
    const labels = { color: tracelab.color("ink"), width: 130, overflow: "truncate", interval: 0 };
    return {
      grid: { left: 4, right: 8, top: 8, bottom: 40, containLabel: true },
      xAxis: { ...axis, data: panel.across, name: spec.x.name, nameLocation: "middle", nameGap: 26, axisLabel: { ...labels, interval: "auto" } },
      yAxis: { ...axis, data: panel.down, inverse: true, axisLabel: labels },
      visualMap: isNumber
        ? { show: false, min: low, max: high, dimension: 2, inRange: { color: ["#00204c", "#31446b", "#666970", "#958f78", "#cbba69", "#ffea46"] } }
        : undefined,
      tooltip: { formatter: ({ dataIndex }) => {
        const { across, down, visible, first } = cells[dataIndex];
        const title = `${spec.x.name} ${panel.across[across]} · ${panel.down[down]}` + (visible.length > 1 ? ` · ${visible.length} rows` : "");
        return tracelab.tip(title, read.tipRows(first, [column.at]));
      } },
      series: [{
        type: "heatmap", itemStyle: { borderColor: tracelab.color("paper"), borderWidth: 2 },
        label: { show: true, fontSize: 11, formatter: ({ dataIndex }) => read.text(cells[dataIndex].first, column.at) },
        data: cells.map(({ across, down, first }) => {
          const value = read.number(first, column.at);
          if (isNumber) return { value: [across, down, value], label: { color: (value - low) / (high - low) > 0.6 ? "#000" : "#fff" } };
          const text = read.text(first, column.at);
          return { value: [across, down, 0], itemStyle: { color: panel.inks[text] ?? "#bbb" }, label: { color: text === "not_run" ? "#000" : "#fff" } };
        }),
      }],
    };
  }

  // Draw the roofs as lines up to the limits of the chart: memory slanted, arithmetic flat.
  function roofSeries(panel, xs) {
    const { flat, slanted } = panel.roofs;
    const speed = Math.max(0, ...slanted.map((roof) => roof.speed));
    const top = Math.max(0, ...flat.map((roof) => roof.peak));
    const ridges = speed ? flat.map((roof) => roof.peak / speed) : [];
    const left = Math.min(...xs, ...ridges) / 3, right = Math.max(...xs, ...ridges) * 10;
    const line = (name, data) => ({
      type: "line", name, data, silent: true, showSymbol: false, color: tracelab.color("ink"), lineStyle: { width: 1.4 },
      endLabel: { show: true, formatter: name, color: tracelab.color("faint"), align: "right", verticalAlign: "bottom", distance: 4, offset: [0, -8] },
    });
    return [
      ...slanted.map(({ name, speed: each }) => line(`${name} ${tracelab.digits(each)} GB/s`, [[left, left * each], [top / each || right, top || right * each]])),
      ...flat.map(({ name, peak }) => line(`${name} ${tracelab.digits(peak)} GFLOP/s`, [[speed ? peak / speed : left, peak], [right, peak]])),
    ];
  }

  function rooflineOption(spec, panel, read, picked, width) {
    const option = pointOption(spec, panel, read, picked, width);
    const xs = panel.series.flatMap((each) => each.rows.map((row) => read.number(row, spec.x.at)));
    const inside = option.dataZoom.slice(0, 2);
    return {
      ...option, dataZoom: inside, series: [...option.series, ...roofSeries(panel, xs)],
      xAxis: { ...option.xAxis, min: undefined, max: undefined, name: "intensity (FLOP per byte of DRAM)" },
      yAxis: { ...option.yAxis, name: "performance (GFLOP/s)" },
    };
  }

  // Select by the chart's kind, else by the content of its panels.
  const OPTIONS = { roofline: rooflineOption, grid: gridOption };
  const optionOf = (spec, panel) => OPTIONS[spec.kind] ?? (panel.series ? pointOption : barOption);

  // Return how many bars of so many rows are not seen at once.
  const barsBeyond = (panel, rows) => panel.rows ? Math.max(rows - BARS_AT_ONCE, 0) : 0;

  function heightOf(spec, panel, rows, width) {
    if (panel.cells) return 60 + 28 * panel.down.length;
    const names = panel.rows ? panel.y.map((y) => spec.y[y].name) : panel.series.map((each) => each.name);
    const [, top] = legend(names, width);
    return top + (panel.rows ? barHeight(spec, panel, rows) : spec.kind === "roofline" ? 420 : 280);
  }

  return { optionOf, heightOf, barsBeyond, kinds: OPTIONS, legend, middle, ink, valueAxis };
})();
