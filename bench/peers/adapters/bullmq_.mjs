// bullmq: finished jobs kept or not; as many jobs at once as the setting says.

import { keepsResults, main, peerRequire, port, record, setting } from './stopwatch.mjs';

const { Queue, QueueEvents, Worker } = peerRequire('bullmq');
const connection = { host: '127.0.0.1', port, maxRetriesPerRequest: null };
const options = { removeOnComplete: !keepsResults };
let queue;
let events;
const open = () => (queue ??= new Queue('bench', { connection }));
const send = (task) => open().add('handle', { task }, options);

await main({
  send,
  sendMany: (tasks) =>
    open().addBulk(tasks.map((task) => ({ name: 'handle', data: { task }, opts: options }))),
  ask: async (task) => {
    events ??= new QueueEvents('bench', { connection });
    await events.waitUntilReady();
    return (await send(task)).waitUntilFinished(events);
  },
  close: () => queue.close(),
  work: () => {
    const handle = async (job) => record(job.data.task);
    const worker = new Worker('bench', handle, { connection, concurrency: Number(setting) });
    worker.on('error', (error) => console.error(error));
    process.on('SIGTERM', () => process.exit(0));
  },
});
