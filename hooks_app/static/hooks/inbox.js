// The inbox: asks the server what changed, keeps what did not, and lets one decide with two keys.
const box = document.querySelector("[data-inbox]");
const stateLine = document.querySelector("[data-live-state]");
const EVERY = 1500;
const HIDDEN_EVERY = 10000;
const CHOICES = { o: "once", s: "session", a: "always", d: "deny" };
let selected = null;

const cards = () => [...box.querySelectorAll(".request")];
const current = () => document.getElementById(selected);

function select(card, scroll) {
  for (const each of cards()) each.classList.toggle("selected", each === card);
  selected = card ? card.id : null;
  if (card && scroll) { card.focus({ preventScroll: true }); card.scrollIntoView({ block: "nearest" }); }
}

function step(by) {
  const all = cards();
  if (!all.length) return;
  const at = all.indexOf(current());
  select(all[Math.min(all.length - 1, Math.max(0, at < 0 ? 0 : at + by))], true);
}

// Asking the server; a login page is not an answer

async function ask(address, options) {
  const answer = await fetch(address, options).catch(() => { throw new Error("The plane did not answer."); });
  if (answer.redirected) throw new Error("You are logged out: reload the page and log in.");
  return answer;
}

// Deciding

function closeForm(card) {
  const form = card && card.querySelector("form.confirm");
  if (!form) return;
  form.hidden = true;
  for (const each of card.querySelectorAll("[data-choice]")) each.removeAttribute("aria-pressed");
}

async function preview(form) {
  const place = form.querySelector("[data-preview-place]");
  const button = form.querySelector(".button.primary");
  const pattern = form.elements.pattern ? form.elements.pattern.value : "";
  const query = new URLSearchParams({ choice: form.elements.choice.value, pattern });
  button.disabled = true;
  place.textContent = "Looking at the last 30 days…";
  try {
    const answer = await ask(`${form.dataset.preview}?${query}`);
    place.innerHTML = await answer.text();
    button.disabled = !answer.ok;
  } catch (problem) {
    place.textContent = `${problem.message} Choose again to look again.`;
  }
  if (!button.disabled && document.activeElement.tagName !== "INPUT") button.focus();
}

function say(form) {
  const { says, saysFits } = form.closest(".request").querySelector('[data-choice][aria-pressed="true"]').dataset;
  const pattern = form.elements.pattern ? form.elements.pattern.value.trim() : "";
  form.querySelector("[data-says]").textContent = pattern && saysFits ? saysFits.replace("…", () => pattern) : says;
}

function choose(card, choice) {
  const button = card && card.querySelector(`[data-choice="${choice}"]`);
  if (!button || button.disabled) return;
  select(card, false);
  const form = card.querySelector("form.confirm");
  const grants = choice === "session" || choice === "always";
  for (const each of card.querySelectorAll("[data-choice]")) each.setAttribute("aria-pressed", String(each === button));
  form.hidden = false;
  form.elements.choice.value = choice;
  if (form.elements.days) form.elements.days.hidden = choice !== "always";
  if (form.elements.pattern) form.elements.pattern.parentElement.hidden = !grants;
  say(form);
  form.querySelector("[data-preview-place]").textContent = "";
  form.querySelector(".problem").hidden = true;
  const confirm = form.querySelector(".button.primary");
  confirm.textContent = button.textContent.trim().replace(/^\w\s+/, "").replace("…", " then");
  confirm.disabled = false;
  if (grants) preview(form); else confirm.focus();
}

async function send(form) {
  const button = form.querySelector(".button.primary");
  if (button.disabled) return;
  button.disabled = true;
  const problem = form.querySelector(".problem");
  try {
    const answer = await ask(form.action, { method: "POST", body: new FormData(form), headers: { Accept: "application/json" } });
    const unread = answer.status === 403 ? "This page is too old to answer from: reload it." : "The plane could not answer.";
    const said = await answer.json().catch(() => { throw new Error(unread); });
    problem.hidden = answer.ok;
    problem.textContent = said.message;
  } catch (reason) {
    problem.hidden = false;
    problem.textContent = `${reason.message} Nothing is known to be decided: try again.`;
  }
  button.disabled = false;
  await refresh();
}

// Live

function tick() {
  for (const each of box.querySelectorAll("[data-left]")) {
    each.endsAt ??= performance.now() + Number(each.dataset.left) * 1000;
    const left = Math.max(0, Math.round((each.endsAt - performance.now()) / 1000));
    const minutes = Math.floor(left / 60);
    const text = left >= 3600 ? `${Math.floor(left / 3600)} h ${minutes % 60} min` : `${minutes}:${String(left % 60).padStart(2, "0")}`;
    each.textContent = left ? `${text} left` : "time is up";
    each.classList.toggle("urgent", left <= 30);
  }
}

function merge(html) {
  const fresh = document.createElement("template");
  fresh.innerHTML = html;
  const active = document.activeElement;
  for (const card of fresh.content.querySelectorAll(".request")) {
    const known = document.getElementById(card.id);
    if (known && known.dataset.mark === card.dataset.mark) card.replaceWith(known);
    else if (known) card.classList.add("changed");
  }
  box.replaceChildren(fresh.content);
  if (box.contains(active)) active.focus({ preventScroll: true });
  if (selected) select(current(), false);
  tick();
}

async function look() {
  const address = new URL(box.dataset.inbox, location.href);
  address.searchParams.set("mark", box.dataset.mark);
  const answer = await ask(address);
  if (!answer.ok) throw new Error("The plane could not answer.");
  if (answer.status === 200) {
    const news = await answer.json();
    merge(news.html);
    box.dataset.mark = news.mark;
    document.title = document.title.replace(/^(\(\d+\) )?/, news.waiting ? `(${news.waiting}) ` : "");
  }
}

async function refresh() {
  try {
    await look();
    stateLine.textContent = "Live";
    stateLine.classList.remove("lost");
  } catch (problem) {
    stateLine.textContent = `${problem.message} What you see may be old.`;
    stateLine.classList.add("lost");
  }
}

async function live() {
  await refresh();
  setTimeout(live, document.hidden ? HIDDEN_EVERY : EVERY);
}

if (box) {
  box.addEventListener("click", (event) => {
    const card = event.target.closest(".request");
    if (!card) return;
    select(card, false);
    const button = event.target.closest("[data-choice]");
    if (button) choose(card, button.dataset.choice);
    if (event.target.closest("[data-back]")) closeForm(card);
  });
  box.addEventListener("submit", (event) => { event.preventDefault(); send(event.target); });
  box.addEventListener("input", (event) => { if (event.target.name === "pattern") say(event.target.form); });
  box.addEventListener("change", (event) => { if (event.target.name === "pattern") { say(event.target.form); preview(event.target.form); } });
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const typing = event.target.matches("input, textarea, select");
    if (event.key === "Escape") { closeForm(current()); if (typing) event.target.blur(); return; }
    if (typing) return;
    if (event.key === "j") step(1);
    else if (event.key === "k") step(-1);
    else if (CHOICES[event.key]) choose(current(), CHOICES[event.key]);
    else return;
    event.preventDefault();
  });
  if (cards().length) select(cards()[0], false);
  tick();
  setInterval(tick, 1000);
  live();
}
