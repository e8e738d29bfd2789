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
  let waiting = null;
  const follow = change => {
    const isAtEnd = log.scrollHeight - log.scrollTop - log.clientHeight < 80;
    const made = change();
    if (isAtEnd) log.scrollTop = log.scrollHeight;
    return made;
  };
  const append = element => follow(() => {
    log.append(element);
    if (waiting) log.append(waiting); // stays last
    return element;
  });
  const add = (name, text) => {
    const line = document.createElement("div");
    line.className = name;
    line.textContent = text;
    return append(line);
  };
  const addPart = html => {
    const place = document.createElement("div");
    place.innerHTML = html; // made by the server, which escapes every value
    append(place);
    htmx.process(place);
    const question = place.querySelector("[data-approval]");
    if (question) endWait();
    if (question && !box.value) question.focus();
  };
  const addMessage = role => {
    log.querySelectorAll(".empty").forEach(line => line.remove());
    return append(document.querySelector(`[data-said="${role}"]`).content.firstElementChild.cloneNode(true));
  };
  const wait = text => {
    if (!waiting) {
      waiting = document.createElement("p");
      waiting.className = "waiting";
      waiting.setAttribute("role", "status");
    }
    waiting.textContent = text;
    append(waiting);
  };
  const endWait = () => {
    if (waiting) waiting.remove();
    waiting = null;
  };
  /* Finished blocks are appended once; the last one is drawn again as it grows. */
  const paint = (answer, { finished, tail }) => follow(() => {
    const place = answer.querySelector(".tail");
    place.insertAdjacentHTML("beforebegin", finished);
    place.innerHTML = tail;
  });
  const end = answer => answer && answer.classList.remove("growing");
  const model = () => form.elements.model.value || form.elements.other.value;
  const show = async response => {
    let answer = null;
    for await (const { kind, data } of events(response)) {
      if (kind === "sent") {
        wait(`Waiting for ${model() || "the model"}: ${data}`);
        continue;
      }
      if (kind === "piece") {
        endWait();
        if (!answer) {
          answer = addMessage("assistant");
          answer.classList.add("growing");
        }
        paint(answer, data);
        continue;
      }
      end(answer);
      answer = null;
      if (kind === "part" || kind === "done") addPart(data);
      else add(kind === "problem" ? "problem" : "tool", data);
      if (kind === "problem") offerAgain();
      if (kind === "done" || kind === "problem") return;
    }
    lose();
  };
  const lose = () => add("problem", "The connection was lost. What arrived of the answer is recorded.");
  /* A prompt without an answer stays recorded and can be sent again. */
  const offerAgain = () => {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "again";
    button.textContent = "Try again";
    button.addEventListener("click", () => {
      button.remove();
      ask("again");
    });
    append(button);
  };
  const ask = async said => {
    const body = new URLSearchParams(new FormData(form));
    if (said === "again") {
      body.delete("prompt");
      body.set("again", "1");
    }
    log.querySelectorAll(".again").forEach(button => button.remove());
    running = new AbortController();
    stop.hidden = false;
    send.disabled = true;
    form.setAttribute("aria-busy", "true");
    wait("Sending…");
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
      if (said !== "again") {
        addMessage("user").querySelector(".said").textContent = box.value;
        box.value = "";
      }
      log.scrollTop = log.scrollHeight;
      await show(response);
    } catch (error) {
      if (error.name !== "AbortError") lose();
      else {
        const hasAnswer = log.querySelector(".growing");
        add("problem", hasAnswer ? "Stopped. What arrived of the answer is recorded." : "Stopped.");
        if (!hasAnswer) offerAgain();
      }
    } finally {
      endWait();
      log.querySelectorAll(".growing").forEach(end);
      log.querySelectorAll("form[data-approval]:not([data-sent])").forEach(question => question.remove());
      running = null;
      stop.hidden = true;
      send.disabled = false;
      form.removeAttribute("aria-busy");
      box.focus();
      document.querySelectorAll("[data-live]").forEach(refresh);
    }
  };
  log.scrollTop = log.scrollHeight;
  log.addEventListener("submit", event => {
    event.target.dataset.sent = "";
    box.focus(); // the question is replaced by its answer
  });
  stop.addEventListener("click", () => running && running.abort());
  box.addEventListener("keydown", event => {
    if (event.key === "Escape" && running) running.abort();
    // While an input method composes a word, Enter chooses the word; Safari says so by the code 229 only.
    if (event.key !== "Enter" || event.shiftKey || event.isComposing || event.keyCode === 229) return;
    event.preventDefault();
    form.requestSubmit();
  });
  form.addEventListener("submit", event => {
    event.preventDefault();
    if (!running && box.value.trim()) ask("prompt");
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
  const style = getComputedStyle(document.body);
  const ink = style.color;
  const axis = { stroke: ink, grid: { stroke: "#8884" } };
  const day = moment => moment == null ? "–" : new Date(moment * 1000).toISOString().slice(0, 10);
  const share = value => value == null ? "–" : `${Math.round(value * 100)}%`;
  const price = value => value == null ? "–" : `$${value.toFixed(value && value < 1 ? 4 : 2)}`;
  const series = (label, stroke, scale, text) => ({ label, stroke, scale, width: 2, points: { show: rows.length < 60 }, value: (_, value) => text(value) });
  new uPlot({
    width: place.clientWidth, height: 220,
    tzDate: moment => uPlot.tzDate(new Date(moment * 1000), "Etc/UTC"),
    scales: { share: { range: [0, 1] } },
    axes: [
      { ...axis, incrs: [1, 2, 7, 14, 28, 91, 182, 364].map(days => days * 86400), values: (_, ticks) => ticks.map(tick => day(tick).slice(5)) },
      { ...axis, size: 64, values: (_, ticks) => ticks.map(tick => `$${+tick.toFixed(4)}`) },
      { ...axis, scale: "share", side: 1, values: (_, ticks) => ticks.map(share) },
    ],
    series: [{ label: "day", value: (_, value) => day(value) }, series("cost", style.getPropertyValue("--s0"), "y", price), series("cached", style.getPropertyValue("--s2"), "share", share)],
  }, [days, values("cost"), values("cached")], place);
}

/* A folded part opens when a link, or the address of the page, leads to it. */
function openPart(place) {
  const part = place && document.getElementById(decodeURIComponent(place.slice(1)));
  const folded = part && part.closest("details");
  if (!folded) return;
  folded.open = true;
  part.scrollIntoView({ block: "start" });
}
function followLink(event) {
  const link = event.target.closest && event.target.closest("a[href^='#']");
  if (link) openPart(link.getAttribute("href"));
}

/* On a phone each row of a table is a card, and each cell has the name of its column. */
function nameCells(table) {
  const heads = [...table.querySelectorAll("thead tr")];
  if (heads.length !== 1 || table.closest(".markdown") || table.querySelector("thead [colspan]")) return;
  const names = [...heads[0].cells].map(cell => cell.textContent.trim());
  table.classList.add("cards");
  table.querySelectorAll("tbody tr").forEach(row => [...row.cells].forEach((cell, place) => {
    if (cell.tagName === "TD" && cell.colSpan === 1) cell.dataset.name = names[place] || "";
    cell.classList.toggle("blank", !cell.textContent.trim());
  }));
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
  askWhy(box, column.dataset.turn);
  box.focus({ preventScroll: true });
}
function askWhy(box, turn) {
  box.value = turn;
  markTurn(box);
  box.dispatchEvent(new Event("change", { bubbles: true }));
}
function stepTurn(event) {
  const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
  if (!step || !event.target.matches(".why input[name=turn]")) return;
  event.preventDefault();
  const turn = Number(event.target.value) + step;
  if (turn >= 1 && turn <= Number(event.target.max || turn)) askWhy(event.target, turn);
}

/* A turn that was opened by a link is where the reader looks. */
function showTurn(event) {
  const asked = event.detail && event.detail.ctx && event.detail.ctx.target;
  const place = [asked, event.target].find(one => one && one.id === "turn");
  const name = place && place.querySelector("#turn-name");
  if (!name) return;
  name.tabIndex = -1;
  name.focus({ preventScroll: true });
  place.scrollIntoView({ block: "start" });
}

function prepare(root) {
  const each = (selector, run) => root.querySelectorAll && root.querySelectorAll(selector).forEach(run);
  each("form[data-expires]", countDown);
  each("form[data-chat]", startChat);
  each("form[data-files]", acceptFiles);
  each("[data-table]", drawChart);
  each(".scroll > table", nameCells);
  const table = root.closest && root.closest(".scroll > table");
  if (table) nameCells(table);
  each(".tip > title", title => {
    title.parentNode.dataset.tip = title.textContent;
    title.remove();
  });
}

document.addEventListener("DOMContentLoaded", () => {
  prepare(document);
  listen();
  document.addEventListener("click", followLink);
  openPart(location.hash);
  document.addEventListener("click", chooseTurn);
  document.addEventListener("keydown", stepTurn);
  document.addEventListener("input", event => event.target.matches(".why input[name=turn]") && markTurn(event.target));
  document.body.addEventListener("htmx:after:swap", event => {
    prepare(event.target);
    showTurn(event);
  });
});
