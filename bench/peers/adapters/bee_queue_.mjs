// bee-queue: finished jobs not kept, no events, no jobs stored in memory.

import { main, peerRequire, port, record, setting } from './stopwatch.mjs';

const Queue = peerRequire('bee-queue');
const settings = {
  redis: { host: '127.0.0.1', port },
  getEvents: false,
  sendEvents: false,
  storeJobs: false,
  removeOnSuccess: true,
};
let queue;
const open = () => (queue ??= new Queue('bench', { ...settings, isWorker: false }));

await main({
  send: (task) => open().createJob({ task }).save(),
  sendMany: (tasks) => open().saveAll(tasks.map((task) => open().createJob({ task }))),
  close: () => queue.close(),
  work: () => {
    const worker = new Queue('bench', { ...settings, isWorker: true });
    worker.on('error', (error) => console.error(error));
    worker.process(Number(setting), async (job) => record(job.data.task));
    process.on('SIGTERM', () => process.exit(0));
  },
});
