document.body.textContent = "Quarry";
