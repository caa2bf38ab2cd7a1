// Requests to the server.

async function answered(response) {
  if (response.status === 401) throw new Error("the server does not know this browser: open the address that binlog web printed");
  let answer = {};
  try {
    answer = await response.json();
  } catch {
    // An answer without JSON has its meaning in the status.
  }
  if (!response.ok) throw new Error(answer.error ?? `the server answered ${response.status}`);
  return answer;
}

export async function get(path, values = {}) {
  return answered(await fetch(`${path}?${new URLSearchParams(values)}`));
}

export async function post(path, value) {
  const headers = { "Content-Type": "application/json" };
  return answered(await fetch(path, { method: "POST", headers, body: JSON.stringify(value) }));
}
