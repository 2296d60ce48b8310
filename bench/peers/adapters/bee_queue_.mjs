// bee-queue: no jobs stored in memory. As tasks: finished ones not kept, no events. As jobs: kept;
// the result is in the event of the end and nowhere else.

import { keepsResults, main, peerRequire, port, record, setting } from './stopwatch.mjs';

const Queue = peerRequire('bee-queue');
const settings = {
  redis: { host: '127.0.0.1', port },
  getEvents: false,
  sendEvents: keepsResults,
  storeJobs: false,
  removeOnSuccess: !keepsResults,
};
let queue;
const open = (more) => (queue ??= new Queue('bench', { ...settings, isWorker: false, ...more }));

const waiting = new Map();
let asked = 0;

// Listening on the queue under an id of our own: job.on() misses an end that outruns save().
async function ask(task) {
  if (!queue) {
    await open({ getEvents: true }).ready();
    queue.on('job succeeded', (id, result) => waiting.get(id)?.(result));
  }
  asked += 1;
  const id = `asked-${asked}`;
  const result = new Promise((resolve) => waiting.set(id, resolve));
  await queue.createJob({ task }).setId(id).save();
  return result.finally(() => waiting.delete(id));
}

await main({
  send: (task) => open().createJob({ task }).save(),
  sendMany: (tasks) => open().saveAll(tasks.map((task) => open().createJob({ task }))),
  ask,
  close: () => queue.close(),
  work: () => {
    const worker = new Queue('bench', { ...settings, isWorker: true });
    worker.on('error', (error) => console.error(error));
    worker.process(Number(setting), async (job) => record(job.data.task));
    process.on('SIGTERM', () => process.exit(0));
  },
});
