// kue: finished jobs kept or not; as many jobs at once as the setting says. It has no bulk call.

import { keepsResults, main, peerRequire, port, record, setting } from './stopwatch.mjs';

const kue = peerRequire('kue');
let queue;
const open = () => (queue ??= kue.createQueue({ redis: { host: '127.0.0.1', port } }));
const create = (task) => open().create('bench', { task }).removeOnComplete(!keepsResults);

const saved = (job) =>
  new Promise((resolve, reject) => job.save((error) => (error ? reject(error) : resolve())));

async function ask(task) {
  const job = create(task);
  const result = new Promise((resolve, reject) => {
    job.on('complete', resolve);
    job.on('failed', reject);
  });
  await saved(job);
  return result;
}

await main({
  // Nobody listens to these, so the producer need not hold them.
  send: (task) => saved(create(task).events(false)),
  ask,
  close: () => new Promise((resolve) => queue.shutdown(1000, resolve)),
  work: () => {
    open().on('error', (error) => console.error(error));
    open().process('bench', Number(setting), (job, done) => done(null, record(job.data.task)));
    process.on('SIGTERM', () => process.exit(0));
  },
});
