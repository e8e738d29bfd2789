"use strict";
/* Live updates, chat, drag and drop, the undo of a seal, and charts. Pages work without it, but for the chat. */

function announce(text) {
  const place = document.getElementById("connection");
  if (place && place.textContent !== text) place.textContent = text;
}

/* An element with data-live="kind kind" is loaded again when such an event arrives, at most once in two seconds. */
const REFRESH_MS = 2000;
const waiting = new Map();

function refresh(element) {
  if (waiting.has(element)) return;
  waiting.set(element, setTimeout(() => {
    waiting.delete(element);
    if (document.contains(element) && !document.hidden) htmx.trigger(element, "refresh");
  }, REFRESH_MS));
}

function show(event) {
  const log = document.getElementById("live");
  if (!log) return;
  const line = document.createElement("li");
  const failed = /failed|fallback/.test(event.kind);
  if (failed) line.className = "state-failed";
  const words = [event.at.slice(11, 19), event.kind, event.turn_id, document.body.dataset.session ? "" : event.session_id];
  line.textContent = words.filter(Boolean).join(" ");
  log.prepend(line);
  while (log.children.length > 50) log.lastChild.remove();
}

/* Events arrive as long as the page is open. After a loss, e.g. a restart of the server, everything is loaded again. */
const RETRY_MS = 3000;

async function isLoggedOut() {
  const request = new AbortController();
  try {
    const response = await fetch("/ui/events", { redirect: "manual", signal: request.signal });
    return response.type === "opaqueredirect";
  } catch (error) {
    return false;
  } finally {
    request.abort();
  }
}

function listen() {
  const kinds = document.body.dataset.kinds;
  if (!kinds) return;
  let isLost = false;
  const refreshAll = () => document.querySelectorAll("[data-live]").forEach(refresh);
  const take = message => {
    const event = JSON.parse(message.data);
    const own = document.body.dataset.session;
    if (own && event.session_id !== own) return;
    show(event);
    document.querySelectorAll("[data-live]").forEach(element => {
      if (element.dataset.live.split(" ").includes(event.kind)) refresh(element);
    });
  };
  const connect = () => {
    const source = new EventSource("/ui/events");
    kinds.split(" ").forEach(kind => source.addEventListener(kind, take));
    source.addEventListener("gap", refreshAll);
    source.onopen = () => {
      announce("live");
      if (isLost) refreshAll();
      isLost = false;
    };
    source.onerror = async () => {
      isLost = true;
      announce("connection lost, reconnecting");
      if (source.readyState !== EventSource.CLOSED) return;
      if (await isLoggedOut()) announce("logged out; reload the page to log in");
      setTimeout(connect, RETRY_MS);
    };
  };
  connect();
}

/* A form that may be used for some seconds only. */
function countDown(form) {
  let left = Number(form.dataset.expires);
  const place = form.querySelector("[data-countdown]");
  const timer = setInterval(() => {
    left -= 1;
    if (place) place.textContent = String(left);
    if (left > 0 && document.contains(form)) return;
    clearInterval(timer);
    form.remove();
  }, 1000);
}

/* The chat: the answer is read as a stream of events. */
async function* events(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    text += value;
    let end;
    while ((end = text.indexOf("\n\n")) >= 0) {
      const lines = text.slice(0, end).split("\n");
      text = text.slice(end + 2);
      const field = name => (lines.find(line => line.startsWith(name + ": ")) || "").slice(name.length + 2);
      if (field("event")) yield { kind: field("event"), data: JSON.parse(field("data")) };
    }
  }
}

function startChat(form) {
  const log = document.querySelector("[data-log]");
  const stop = form.querySelector("[data-stop]");
  const send = form.querySelector("button.main");
  const box = form.querySelector("textarea");
  let running = null;
  const add = (name, text) => {
    const line = document.createElement("div");
    line.className = name;
    line.textContent = text;
    log.append(line);
    log.scrollTop = log.scrollHeight;
    return line;
  };
  const addPart = html => {
    const place = document.createElement("div");
    place.innerHTML = html; // made by the server, which escapes every value
    log.append(place);
    htmx.process(place);
    log.scrollTop = log.scrollHeight;
  };
  const show = async response => {
    let answer = null;
    for await (const { kind, data } of events(response)) {
      if (kind === "piece") {
        answer = answer || add("message m-assistant said", "");
        answer.textContent += data;
        log.scrollTop = log.scrollHeight;
        continue;
      }
      answer = null;
      if (kind === "part" || kind === "done") addPart(data);
      else add(kind === "problem" ? "problem" : "tool", data);
      if (kind === "done" || kind === "problem") return;
    }
    add("problem", "The connection was lost; the partial answer is recorded.");
  };
  log.scrollTop = log.scrollHeight;
  log.addEventListener("submit", event => { event.target.dataset.sent = ""; });
  stop.addEventListener("click", () => running && running.abort());
  box.addEventListener("keydown", event => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) form.requestSubmit();
  });
  form.addEventListener("submit", async event => {
    event.preventDefault();
    if (running || !box.value.trim()) return;
    const said = box.value;
    const body = new URLSearchParams(new FormData(form));
    running = new AbortController();
    stop.hidden = false;
    send.disabled = true;
    try {
      const response = await fetch(form.action, { method: "POST", body, signal: running.signal, headers: { "HX-Request": "true" } });
      if (response.redirected || response.headers.get("hx-redirect")) {
        location.assign("/ui/login");
        return;
      }
      if (!(response.headers.get("content-type") || "").startsWith("text/event-stream")) {
        const page = new DOMParser().parseFromString(await response.text(), "text/html");
        add("problem", page.body.textContent.trim());
        return;
      }
      add("message m-user said", said);
      box.value = "";
      await show(response);
    } catch (error) {
      add("problem", error.name === "AbortError" ? "Stopped." : "The connection was lost; the partial answer is recorded.");
    } finally {
      log.querySelectorAll("form[data-approval]:not([data-sent])").forEach(question => question.remove());
      running = null;
      stop.hidden = true;
      send.disabled = false;
      box.focus();
      document.querySelectorAll("[data-live]").forEach(refresh);
    }
  });
}

/* Files can be dropped on the form. */
function acceptFiles(form) {
  const input = form.querySelector("input[type=file]");
  const area = form.querySelector(".drop");
  ["dragenter", "dragover"].forEach(name => area.addEventListener(name, event => {
    event.preventDefault();
    area.classList.add("over");
  }));
  ["dragleave", "drop"].forEach(name => area.addEventListener(name, () => area.classList.remove("over")));
  area.addEventListener("drop", event => {
    event.preventDefault();
    input.files = event.dataTransfer.files;
    if (input.multiple) form.requestSubmit();
  });
}

function drawChart(place) {
  const table = document.getElementById(place.dataset.table);
  const rows = [...table.querySelectorAll("tbody tr")];
  if (!window.uPlot || rows.length < 2) return;
  const days = rows.map(row => Date.parse(row.dataset.day) / 1000);
  const values = name => rows.map(row => Number(row.dataset[name]));
  const ink = getComputedStyle(document.body).color;
  const axis = { stroke: ink, grid: { stroke: "#8884" } };
  const series = (label, stroke, scale) => ({ label, stroke, scale, width: 2, points: { show: rows.length < 60 } });
  new uPlot({
    width: place.clientWidth, height: 220,
    scales: { share: { range: [0, 1] } },
    axes: [axis, { ...axis, label: "$" }, { ...axis, scale: "share", side: 1, values: (_, ticks) => ticks.map(tick => `${Math.round(tick * 100)}%`) }],
    series: [{}, series("cost", "#0068a8", "y"), series("cached", "#00805c", "share")],
  }, [days, values("cost"), values("cached")], place);
}

/* A link to a folded part opens it. */
function openPart(event) {
  const link = event.target.closest && event.target.closest("a[href^='#part-']");
  const part = link && document.querySelector(link.getAttribute("href"));
  if (part) part.open = true;
}

/* A click on the timeline chooses its turn; the number's arrow keys step through the turns. */
function markTurn(box) {
  const columns = [...box.closest(".picture").querySelectorAll(".column")];
  const chosen = columns.find(column => Number(column.dataset.turn) >= Number(box.value));
  columns.forEach(column => column.classList.toggle("chosen", column === chosen));
}
function chooseTurn(event) {
  const column = event.target.closest && event.target.closest(".column");
  const box = column && column.closest(".picture").querySelector(".why input[name=turn]");
  if (!box) return;
  box.value = column.dataset.turn;
  markTurn(box);
  box.dispatchEvent(new Event("change", { bubbles: true }));
}

function prepare(root) {
  const each = (selector, run) => root.querySelectorAll && root.querySelectorAll(selector).forEach(run);
  each("form[data-expires]", countDown);
  each("form[data-chat]", startChat);
  each("form[data-files]", acceptFiles);
  each("[data-table]", drawChart);
  each(".tip > title", title => {
    title.parentNode.dataset.tip = title.textContent;
    title.remove();
  });
}

document.addEventListener("DOMContentLoaded", () => {
  prepare(document);
  listen();
  document.addEventListener("click", openPart);
  document.addEventListener("click", chooseTurn);
  document.addEventListener("input", event => event.target.matches(".why input[name=turn]") && markTurn(event.target));
  document.body.addEventListener("htmx:after:swap", event => prepare(event.target));
});
