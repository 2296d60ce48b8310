// bullmq: finished jobs not kept; as many jobs at once as the setting says.

import { main, peerRequire, port, record, setting } from './stopwatch.mjs';

const { Queue, Worker } = peerRequire('bullmq');
const connection = { host: '127.0.0.1', port, maxRetriesPerRequest: null };
const options = { removeOnComplete: true };
let queue;
const open = () => (queue ??= new Queue('bench', { connection }));

await main({
  send: (task) => open().add('handle', { task }, options),
  sendMany: (tasks) =>
    open().addBulk(tasks.map((task) => ({ name: 'handle', data: { task }, opts: options }))),
  close: () => queue.close(),
  work: () => {
    const handle = async (job) => record(job.data.task);
    const worker = new Worker('bench', handle, { connection, concurrency: Number(setting) });
    worker.on('error', (error) => console.error(error));
    process.on('SIGTERM', () => process.exit(0));
  },
});
