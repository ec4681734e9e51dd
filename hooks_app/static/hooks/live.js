// <div data-live="address">: fetched again until nothing in it is marked data-unfinished.
async function refresh(place) {
  const answer = await fetch(place.dataset.live, { headers: { "X-Requested-With": "fetch" } });
  if (!answer.ok) return true;
  const html = await answer.text();
  if (html !== place.shownHtml) {
    const open = [...place.querySelectorAll("details")].map((each) => each.open);
    place.innerHTML = html;
    place.shownHtml = html;
    [...place.querySelectorAll("details")].forEach((each, index) => { if (index < open.length) each.open = open[index]; });
  }
  return place.querySelector("[data-unfinished]") !== null;
}

function follow(place) {
  setTimeout(async () => {
    let again = true;
    try { again = await refresh(place); } catch { /* the next try may reach it */ }
    if (again) follow(place);
  }, document.hidden ? 5000 : 1000);
}
for (const place of document.querySelectorAll("[data-live]")) follow(place);
