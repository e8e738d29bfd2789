const tip = document.getElementById("tip");
function tell(text, event) {
  tip.style.display = text ? "block" : "none";
  if (!text) return;
  tip.textContent = text;
  const box = tip.getBoundingClientRect();
  const left = Math.min(event.clientX + 12, innerWidth - box.width - 6);
  const above = event.clientY + 16 + box.height > innerHeight;
  tip.style.left = Math.max(6, left) + "px";
  tip.style.top = Math.max(6, above ? event.clientY - box.height - 10 : event.clientY + 16) + "px";
}
/* What a shape is says its data-tip; what a place of a plot has says the plot. */
function point(event) {
  const target = event.target.closest && event.target.closest(".tip, .plot");
  tell(target && (target.dataset.tip || target.tell && target.tell()), event);
}
addEventListener("mousemove", point);
addEventListener("pointerdown", point);

const PLOT_HEIGHT = 230;
const MANY_POINTS = 16;
const colour = name => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
const percent = value => `${Math.round(value * 100)}%`;
const tokens = value => value.toLocaleString("en");
const short = value => value < 1000 ? String(value) : `${+(value / 1000).toFixed(1)}k`;

/* Lines from 0 to 100 %; with a limit, layers on one another: each is drawn from 0 and covered by those below it. */
function options(plot, width) {
  const { labels, lines, limit } = plot;
  const axis = { stroke: colour("dim"), font: "12px system-ui", grid: { stroke: colour("rule"), width: 1 }, ticks: { show: false } };
  const series = lines.map(line => ({
    label: line.name, stroke: colour(line.colour), width: limit ? 0 : 2, spanGaps: true, show: !hidden.has(line.name),
    fill: limit ? colour(line.colour) : undefined, points: { show: !limit && labels.length <= MANY_POINTS, size: 6, fill: colour(line.colour) },
  }));
  const budget = { stroke: colour("ink"), width: 1.2, dash: [4, 3], points: { show: false } };
  return {
    width, height: PLOT_HEIGHT, legend: { show: false }, padding: [10, 12, 0, 0],
    cursor: { y: false, drag: { x: false, y: false }, points: { show: false } },
    scales: { x: { time: false }, y: { range: [0, limit ? limit * 1.02 : 1] } },
    axes: [
      { ...axis, grid: { show: false }, label: plot.axis, labelFont: "12px system-ui", labelSize: 18, size: 26, space: 30,
        incrs: [1, 2, 3, 4, 5, 10, 20, 25, 50, 100], values: (_, places) => places.map(place => labels[place] || "") },
      { ...axis, size: 44, values: (_, values) => values.map(limit ? short : percent), splits: limit ? [0, limit / 2, limit] : [0, .25, .5, .75, 1] },
    ],
    series: [{}, ...(limit ? [...series].reverse() : series), ...(limit ? [budget] : [])],
  };
}

function columns(plot) {
  const places = plot.labels.map((_, place) => place);
  if (!plot.limit) return [places, ...plot.lines.map(line => line.values)];
  let below = places.map(() => 0);
  const layers = plot.lines.map(line => (below = below.map((height, place) => height + line.values[place])));
  return [places, ...layers.reverse(), places.map(() => plot.limit)];
}

const drawn = new Map();
const hidden = new Set();
function draw(place) {
  if (drawn.has(place)) drawn.get(place).destroy();
  const plot = JSON.parse(place.dataset.plot);
  const chart = new uPlot(options(plot, place.clientWidth), columns(plot), place);
  drawn.set(place, chart);
  place.tell = () => {
    const at = chart.cursor.idx;
    if (at == null) return "";
    const lines = plot.limit ? [...plot.lines].reverse().filter(line => line.values[at]) : plot.lines.filter(line => !hidden.has(line.name));
    const said = lines.filter(line => line.values[at] != null).map(line => `${line.name} ${(plot.limit ? tokens : percent)(line.values[at])}`);
    return [plot.heads[at], ...said].join("\n");
  };
}
/* A plot is drawn once it has a width: not before its section is shown. */
const sizes = new ResizeObserver(changes => changes.forEach(({ target }) => {
  if (!target.clientWidth) return;
  if (drawn.has(target)) drawn.get(target).setSize({ width: target.clientWidth, height: PLOT_HEIGHT });
  else draw(target);
}));
const redraw = () => drawn.forEach((_, place) => draw(place));

addEventListener("DOMContentLoaded", () => {
  document.querySelectorAll(".strip i").forEach(piece => { piece.style.flexGrow = piece.dataset.turns; });
  document.querySelectorAll(".plot").forEach(place => sizes.observe(place));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
});

const sections = [...document.querySelectorAll("section[data-budget]")];
const tabs = [...document.querySelectorAll("nav button")];
function choose(budget) {
  sections.forEach(section => { section.hidden = section.dataset.budget !== budget; });
  tabs.forEach(tab => tab.setAttribute("aria-pressed", String(tab.dataset.budget === budget)));
}
tabs.forEach(tab => tab.addEventListener("click", () => choose(tab.dataset.budget)));
if (tabs.length) choose(tabs[0].dataset.budget);
document.querySelectorAll(".toggles button").forEach(button => button.addEventListener("click", () => {
  const name = button.dataset.strategy;
  if (!hidden.delete(name)) hidden.add(name);
  document.querySelectorAll(`.toggles button[data-strategy="${CSS.escape(name)}"]`)
    .forEach(twin => twin.setAttribute("aria-pressed", String(!hidden.has(name))));
  redraw();
}));
