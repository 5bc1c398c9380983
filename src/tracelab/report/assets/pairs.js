// Pair charts: two values of a row as dots on a logarithmic axis, with a line between them.
"use strict";
{
  const { legend, middle, ink, kinds } = tracelab.drawings;
  const DOT = 11, WIDE = 90, NARROW = 500;
  const THOUSANDS = [[1e18, "E"], [1e15, "P"], [1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]];

  function short(value, unit) {
    if (unit) return tracelab.readable(value, unit);
    const [size, letter] = THOUSANDS.find(([least]) => value >= least) ?? [1, ""];
    return tracelab.digits(value / size) + letter;
  }

  function pairOption(spec, panel, read, picked, width) {
    const columns = panel.y.map((y) => spec.y[y]), unit = columns[0].unit;
    const pairs = panel.rows.map((row, index) => ({ row, label: panel.labels[index] }))
      .filter(({ row }) => read.ofRun(row, picked))
      .map((pair) => ({ ...pair, spots: columns.map((column) => read.number(pair.row, column.at)).filter((value) => value > 0) }))
      .filter(({ spots }) => spots.length);
    const spots = pairs.flatMap((pair) => pair.spots);
    const [names, top] = legend(columns.map((column) => column.name), width);
    const line = { stroke: tracelab.color("idle"), lineWidth: 2 };

    // Draw the line of a row, and the ratio of its values above it if there is room.
    function between(params, api) {
      const [least, most, place] = [0, 1, 2].map((at) => api.value(at));
      const [left, y] = api.coord([least, place]), [right] = api.coord([most, place]);
      const text = { text: `${tracelab.digits(most / least)} times`, x: (left + right) / 2, y: y - 4, align: "center", verticalAlign: "bottom", fill: tracelab.color("ink"), font: "11px sans-serif" };
      const children = [{ type: "line", shape: { x1: left, y1: y, x2: right, y2: y }, style: line }];
      return { type: "group", children: right - left > WIDE ? [...children, { type: "text", style: text }] : children };
    }

    return {
      grid: { left: 4, right: 24, top: top + 6, bottom: 30, containLabel: true },
      legend: names,
      xAxis: {
        type: "log", min: 10 ** Math.floor(Math.log10(Math.min(...spots) / (width < NARROW ? 30 : 3))), max: 10 ** Math.ceil(Math.log10(Math.max(...spots) * 3)),
        axisLabel: { color: tracelab.color("faint"), hideOverlap: true, formatter: (value) => short(value, unit) },
        splitLine: { lineStyle: { color: tracelab.color("line") } },
      },
      yAxis: {
        type: "category", inverse: true, data: pairs.map(({ label }) => label), axisTick: { show: false },
        axisLine: { lineStyle: { color: tracelab.color("line") } },
        axisLabel: { color: tracelab.color("ink"), interval: 0, formatter: (label) => middle(label, Math.min(46, width * 0.06)) },
      },
      tooltip: { trigger: "item", formatter: ({ value }) => tracelab.tip(pairs[value[1]].label, read.tipRows(pairs[value[1]].row, columns.map((column) => column.at))) },
      series: [
        { type: "custom", silent: true, renderItem: between, encode: { x: [0, 1], y: 2 }, data: pairs.map((pair, place) => [Math.min(...pair.spots), Math.max(...pair.spots), place]) },
        ...columns.map((column, index) => ({
          type: "scatter", name: column.name, color: ink(column, panel.y[index]), symbolSize: DOT, itemStyle: { opacity: 1 },
          data: pairs.map((pair, place) => [pair, read.number(pair.row, column.at), place]).filter(([, value]) => value > 0).map(([pair, value, place]) => ({
            value: [value, place],
            label: { position: value === Math.min(...pair.spots) && pair.spots.length > 1 ? "left" : "right" },
          })),
          label: { show: true, color: tracelab.color("faint"), fontSize: 11, formatter: ({ value }) => short(value[0], unit) },
        })),
      ],
    };
  }

  kinds.pairs = pairOption;
}
