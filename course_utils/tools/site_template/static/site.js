// A page opened as a file may not read the others, so results of a search there come without an excerpt.
if (location.protocol === "file:") DOCUMENTATION_OPTIONS.SHOW_SEARCH_SUMMARY = false;
