(() => {
  if (document.activeElement) document.activeElement.blur();
  const clear = event => {
    event.clipboardData.setData('text/plain', '');
    event.preventDefault();
  };
  addEventListener('copy', clear, true);
  document.execCommand('copy');
  removeEventListener('copy', clear, true);
})()
