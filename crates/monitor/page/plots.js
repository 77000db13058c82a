// The plots of a pair: delay with its quantiles, loss, available bandwidth with its intervals. Gaps are hatched, times at which a
// measurement loaded the path are shaded.
/* global uPlot */
import { rate, ratio, span, tick } from "./format.js";

const style = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const rgba = (name, alpha) => `rgba(${style(name)}, ${alpha})`;
const SYNC = "time";
/** Pixels between lines of gaps, and between marks on the average. */
const HATCH_DISTANCE = 9, MIN_MARK_DISTANCE = 12;

function axes(format) {
  const common = { stroke: style("--text"), grid: { stroke: style("--line"), width: 1 }, ticks: { stroke: style("--line") } };
  return [{ ...common, values: (_, splits, axis, space, step) => splits.map((seconds, place) => tick(seconds, splits[place - 1], step)) }, { ...common, size: 84, values: (_, values) => values.map((value) => (value === null ? "" : format(value))) }];
}

/** Draws into `place` as wide as it is; returns what ends it. `range` stays, whatever values there are. */
function draw(place, label, options, data, range, format, marks) {
  const size = () => ({ width: Math.max(place.clientWidth - 2, 280), height: options.height ?? 220 });
  const plot = new uPlot({
    ...size(),
    cursor: { sync: { key: SYNC }, drag: { x: true, y: false } },
    scales: { x: { time: true, range: () => [range.from, range.to] }, y: options.y ?? {} },
    axes: axes(format),
    series: [{ label: "time" }, ...options.series],
    bands: options.bands ?? [],
    hooks: {
      drawClear: [(chart) => drawMarks(chart, marks)],
      draw: options.draw ? [options.draw] : [],
      setSelect: [(chart) => {
        if (chart.select.width < 8) return;
        const from = chart.posToVal(chart.select.left, "x"), to = chart.posToVal(chart.select.left + chart.select.width, "x");
        place.dispatchEvent(new CustomEvent("range", { bubbles: true, detail: { from, to } }));
      }],
    },
  }, data, place);
  plot.root.setAttribute("role", "img");
  plot.root.setAttribute("aria-label", label);
  const observer = new ResizeObserver(() => plot.setSize(size()));
  observer.observe(place);
  return () => { observer.disconnect(); plot.destroy(); };
}

function drawMarks(chart, marks) {
  const { ctx, bbox } = chart;
  const place = (at) => Math.min(Math.max(chart.valToPos(at, "x", true), bbox.left), bbox.left + bbox.width);
  ctx.save();
  ctx.fillStyle = rgba("--shade", 0.18);
  // So many that they would cover all tell nothing.
  const isShown = ({ from, to }) => place(to) - place(from) >= 1 || marks.disturbed.length < bbox.width / MIN_MARK_DISTANCE;
  for (const { from, to } of (marks.disturbed ?? []).filter(isShown)) ctx.fillRect(place(from), bbox.top, Math.max(place(to) - place(from), 1), bbox.height);
  ctx.strokeStyle = rgba("--shade", 0.7);
  for (const { from, to } of marks.gaps ?? []) {
    const left = place(from), right = place(to);
    if (right <= left) continue;
    ctx.save();
    ctx.beginPath();
    ctx.rect(left, bbox.top, right - left, bbox.height);
    ctx.clip();
    ctx.beginPath();
    // One pattern for gaps that follow each other.
    const first = Math.floor((left - bbox.height) / HATCH_DISTANCE) * HATCH_DISTANCE;
    for (let x = first; x < right; x += HATCH_DISTANCE) { ctx.moveTo(x, bbox.top + bbox.height); ctx.lineTo(x + bbox.height, bbox.top); }
    ctx.stroke();
    ctx.restore();
  }
  ctx.restore();
}

const isKnown = (value) => value !== null && value !== undefined;

/** A line has two ends; a value between two that are not known is a point. */
function lonely(chart, number) {
  const values = chart.data[number];
  return values.flatMap((value, place) => (isKnown(value) && !isKnown(values[place - 1]) && !isKnown(values[place + 1]) ? [place] : []));
}

const line = (label, format, extra) => ({
  label, value: (_, value) => (isKnown(value) ? format(value) : "–"), spanGaps: false, points: { show: true, size: 5, filter: lonely }, ...extra,
});

/** No line crosses a gap from which there is nothing. */
function broken(series, gaps) {
  const middles = (gaps ?? []).map(({ from, to }) => (from + to) / 2);
  const isKnown = (time) => series.some((bucket) => bucket.from_seconds <= time && time < bucket.from_seconds + bucket.length_seconds);
  const breaks = middles.filter((time) => !isKnown(time)).map((time) => ({ from_seconds: time, sent: 0, delays: [] }));
  return [...series, ...breaks].sort((one, other) => one.from_seconds - other.from_seconds);
}

export const laneOf = (bucket, lane) => bucket.delays.find((delay) => delay.lane === lane);

/** Quantiles of the delay: the darker, the nearer to the median. */
export function delayPlot(place, title, lane, buckets, range, marks) {
  const series = broken(buckets, marks.gaps);
  const column = (name) => series.map((bucket) => laneOf(bucket, lane)?.[`${name}_seconds`] ?? null);
  const names = ["minimum", "quantile_25", "median", "quantile_75", "quantile_95", "maximum"];
  const faint = (label, alpha) => line(label, span, { stroke: rgba("--delay", alpha), width: 1 });
  return draw(place, title, {
    series: [faint("min", 0.55), faint("25 %", 0.4), line("median", span, { stroke: rgba("--delay", 1), width: 2 }), faint("75 %", 0.4), faint("95 %", 0.4), faint("max", 0.25)],
    bands: [
      { series: [6, 5], fill: rgba("--delay", 0.08) }, { series: [5, 4], fill: rgba("--delay", 0.2) },
      { series: [4, 2], fill: rgba("--delay", 0.38) }, { series: [2, 1], fill: rgba("--delay", 0.2) },
    ],
    y: { range: (_, low, high) => (high === null ? [0, 1] : [0, high * 1.05 || 1]) },
  }, [series.map((bucket) => bucket.from_seconds), ...names.map(column)], range, span, marks);
}

/** Loss, and replies that came late, as shares of the probes. */
export function lossPlot(place, buckets, range, marks) {
  const series = broken(buckets, marks.gaps);
  const share = (name) => series.map((bucket) => (bucket.sent > 0 ? bucket[name] / bucket.sent : null));
  const bars = uPlot.paths.bars({ size: [1, 40], align: 1 });
  // Only where the host tells in which direction probes were lost.
  const directions = [["lost_up", "lost, up", "--up"], ["lost_down", "lost, down", "--down"]]
    .filter(([name]) => series.some((bucket) => bucket[name] > 0));
  return draw(place, "Loss", {
    height: 140,
    series: [
      line("lost", ratio, { stroke: style("--bad"), fill: style("--bad"), paths: bars, points: { show: false } }),
      line("late", ratio, { stroke: style("--warn"), width: 1 }),
      ...directions.map(([, label, colour]) => line(label, ratio, { stroke: style(colour), width: 1 })),
    ],
    y: { range: (_, low, high) => [0, Math.max(high ?? 0, 0.01) * 1.05] },
  }, [series.map((bucket) => bucket.from_seconds), share("lost"), share("late"), ...directions.map(([name]) => share(name))], range, ratio, marks);
}

/** Each measurement's value with its interval; one without a value stands at the bottom as a cross. */
export function bandwidthPlot(place, runs, range, marks) {
  const times = runs.map((run) => run.start_seconds);
  const value = (name) => runs.map((run) => run[name]?.value ?? null);
  const highest = Math.max(0, ...runs.flatMap((run) => [run.up?.high ?? 0, run.down?.high ?? 0]));
  const drawIntervals = (chart) => {
    const { ctx } = chart;
    const scale = devicePixelRatio;
    ctx.save();
    ctx.lineWidth = 1.5 * scale;
    for (const [name, colour, offset] of [["up", "--up", -2], ["down", "--down", 2]]) {
      ctx.strokeStyle = style(colour);
      for (const run of runs) {
        const x = chart.valToPos(run.start_seconds, "x", true) + offset * scale;
        const estimate = run[name];
        ctx.beginPath();
        if (estimate?.value !== undefined) {
          for (const end of ["low", "high"]) {
            const y = chart.valToPos(estimate[end], "y", true);
            ctx.moveTo(x - 3 * scale, y);
            ctx.lineTo(x + 3 * scale, y);
          }
          ctx.moveTo(x, chart.valToPos(estimate.low, "y", true));
          ctx.lineTo(x, chart.valToPos(estimate.high, "y", true));
        } else {
          const y = chart.bbox.top + chart.bbox.height - 6 * scale;
          ctx.moveTo(x - 4 * scale, y - 4 * scale); ctx.lineTo(x + 4 * scale, y + 4 * scale);
          ctx.moveTo(x - 4 * scale, y + 4 * scale); ctx.lineTo(x + 4 * scale, y - 4 * scale);
        }
        ctx.stroke();
      }
    }
    ctx.restore();
  };
  const points = (label, colour) => line(label, rate, { stroke: style(colour), paths: () => null, points: { show: true, size: 7, fill: style(colour) } });
  return draw(place, "Available bandwidth", {
    series: [points("up", "--up"), points("down", "--down")],
    draw: drawIntervals,
    y: { range: () => [0, highest * 1.08 || 1] },
  }, [times, value("up"), value("down")], range, rate, marks);
}
