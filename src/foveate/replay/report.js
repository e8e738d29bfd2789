const tip = document.getElementById("tip");
document.querySelectorAll(".tip > title").forEach(title => {
  title.parentNode.dataset.tip = title.textContent;
  title.remove();
});
function place(event) {
  const target = event.target.closest && event.target.closest(".tip");
  tip.style.display = target ? "block" : "none";
  if (!target) return;
  tip.textContent = target.dataset.tip;
  const box = tip.getBoundingClientRect();
  const left = Math.min(event.clientX + 12, innerWidth - box.width - 6);
  const above = event.clientY + 16 + box.height > innerHeight;
  tip.style.left = Math.max(6, left) + "px";
  tip.style.top = Math.max(6, above ? event.clientY - box.height - 10 : event.clientY + 16) + "px";
}
addEventListener("pointermove", place);
addEventListener("pointerdown", place);
const sections = [...document.querySelectorAll("section[data-budget]")];
const tabs = [...document.querySelectorAll("nav button")];
function choose(budget) {
  sections.forEach(section => { section.hidden = section.dataset.budget !== budget; });
  tabs.forEach(tab => tab.setAttribute("aria-pressed", String(tab.dataset.budget === budget)));
}
tabs.forEach(tab => tab.addEventListener("click", () => choose(tab.dataset.budget)));
if (tabs.length) choose(tabs[0].dataset.budget);
document.querySelectorAll(".toggles button").forEach(button => button.addEventListener("click", () => {
  const off = button.getAttribute("aria-pressed") === "true";
  const name = CSS.escape(button.dataset.strategy);
  document.querySelectorAll(`.toggles button[data-strategy="${name}"]`)
    .forEach(twin => twin.setAttribute("aria-pressed", String(!off)));
  document.querySelectorAll(`svg [data-strategy="${name}"]`).forEach(part => part.classList.toggle("off", off));
}));
