// The parts of Apache ECharts that the report uses. To build echarts.js from it, in an otherwise empty folder:
//   npm install echarts@6.1.0 esbuild@0.28
//   npx esbuild echarts.mjs --bundle --minify --format=iife --global-name=echarts --target=es2020 --legal-comments=none
//     --define:process.env.NODE_ENV='"production"' --charset=utf8 --banner:js="$(head -n 1 echarts.js)" --outfile=echarts.js
import { use } from "echarts/core";
import { BarChart, CustomChart, HeatmapChart, LineChart, ScatterChart } from "echarts/charts";
import {
  AriaComponent, DataZoomInsideComponent, DataZoomSliderComponent, GridComponent, LegendComponent, LegendScrollComponent,
  MarkLineComponent, TooltipComponent, VisualMapContinuousComponent,
} from "echarts/components";
import { CanvasRenderer, SVGRenderer } from "echarts/renderers";

use([
  BarChart, CustomChart, HeatmapChart, LineChart, ScatterChart,
  AriaComponent, DataZoomInsideComponent, DataZoomSliderComponent, GridComponent, LegendComponent, LegendScrollComponent,
  MarkLineComponent, TooltipComponent, VisualMapContinuousComponent,
  CanvasRenderer, SVGRenderer,
]);
export { getInstanceByDom, init } from "echarts/core";
