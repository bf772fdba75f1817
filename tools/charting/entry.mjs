// What of Apache ECharts the reports use. build.sh makes one file of it.
import { use } from "echarts/core";
import { CustomChart, LineChart } from "echarts/charts";
import {
  DataZoomInsideComponent,
  GridComponent,
  LegendPlainComponent,
  ToolboxComponent,
  TooltipComponent,
} from "echarts/components";
import { CanvasRenderer, SVGRenderer } from "echarts/renderers";

use([
  LineChart, CustomChart, GridComponent, TooltipComponent, DataZoomInsideComponent, LegendPlainComponent,
  ToolboxComponent, CanvasRenderer, SVGRenderer,
]);

export { getInstanceByDom, init, version } from "echarts/core";
