"use strict";

// Copy buttons: <button data-copy="text">. The clipboard API needs https or localhost; elsewhere the text is selected.
function copied(button) {
  const label = button.textContent;
  button.classList.add("done");
  if (button.dataset.done) button.textContent = button.dataset.done;
  setTimeout(() => {
    button.classList.remove("done");
    if (button.dataset.done) button.textContent = label;
  }, 1500);
}

function select(button) {
  const code = button.parentElement.querySelector("code");
  if (code) window.getSelection().selectAllChildren(code);
}

document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-copy]");
  if (!button) return;
  event.preventDefault();
  if (!navigator.clipboard) return select(button);
  navigator.clipboard.writeText(button.dataset.copy).then(() => copied(button), () => select(button));
});

// Menus close when one clicks elsewhere or presses Escape.
function closeMenus(except) {
  for (const menu of document.querySelectorAll("details.menu[open]")) if (menu !== except) menu.open = false;
}
document.addEventListener("click", (event) => closeMenus(event.target.closest("details.menu")));
document.addEventListener("keydown", (event) => { if (event.key === "Escape") closeMenus(null); });

// On a narrow screen the page menu starts folded.
const fold = document.querySelector(".nav-fold");
if (fold && window.matchMedia("(max-width: 767px)").matches) fold.open = false;
