// What the Node adapters share; stopwatch.py says what each part is for.

import fs from 'node:fs';
import net from 'node:net';
import { createRequire } from 'node:module';
import path from 'node:path';

const BATCH_JOBS = 100;
const WARM_UP_JOBS = 100;
const PAYLOAD_BYTES = 100;
const RECORD_BYTES = 40;
const SAMPLE_TIMEOUT_MS = 10_000;

export const port = Number(process.env.BENCH_PORT);
export const setting = process.env.BENCH_SETTING ?? '';

// The peer is installed outside the repository, so it is looked up from there.
export const peerRequire = createRequire(path.join(process.env.BENCH_PEER_DIR, 'package.json'));

const nowNs = () => process.hrtime.bigint().toString().padStart(20, '0');
const payload = () => nowNs().padEnd(PAYLOAD_BYTES, 'x');
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

let file;

export function record(task) {
  const startedAt = nowNs();
  file ??= fs.openSync(process.env.BENCH_RECORDS, 'a');
  fs.writeSync(file, startedAt + task.slice(0, 20));
}

// send and sendMany return promises; work returns at once and leaves the worker running.
export async function main({ send, sendMany, work, close }) {
  const [verb, count] = process.argv.slice(2);
  const jobs = Number(count ?? 0);
  if (verb === 'worker') {
    await work();
    return;
  }
  if (verb === 'latency') await runLatency(jobs, send);
  else if (verb === 'enqueue-bulk') await runBulk(jobs, sendMany);
  else await runOneByOne(jobs, send);
  await close();
  process.exit(0);
}

async function runOneByOne(jobs, send) {
  for (let i = 0; i < WARM_UP_JOBS; i += 1) await send(payload());
  await measured(jobs, 'none', async () => {
    for (let i = 0; i < jobs; i += 1) await send(payload());
  });
}

async function runBulk(jobs, sendMany) {
  const batch = (size) => Array.from({ length: size }, payload);
  await sendMany(batch(WARM_UP_JOBS));
  await measured(jobs, 'call', async () => {
    for (let start = 0; start < jobs; start += BATCH_JOBS) {
      await sendMany(batch(Math.min(BATCH_JOBS, jobs - start)));
    }
  });
}

async function runLatency(jobs, send) {
  const records = process.env.BENCH_RECORDS;
  let size = fs.statSync(records).size;
  for (let i = 0; i < jobs; i += 1) {
    await send(payload());
    size += RECORD_BYTES;
    const deadline = Date.now() + SAMPLE_TIMEOUT_MS;
    await sleep(3 + Math.random() * 10);
    while (fs.statSync(records).size < size) {
      if (Date.now() > deadline) throw new Error('a job was not started within 10 s');
      await sleep(1);
    }
  }
  console.log(JSON.stringify({ jobs }));
}

async function measured(jobs, bulk, loop) {
  const before = await redisUsage();
  const cpuBefore = process.cpuUsage();
  const startedAt = process.hrtime.bigint();
  await loop();
  const seconds = Number(process.hrtime.bigint() - startedAt) / 1e9;
  const cpu = process.cpuUsage(cpuBefore);
  const after = await redisUsage();
  console.log(
    JSON.stringify({
      jobs,
      queued: jobs + WARM_UP_JOBS,
      bulk,
      seconds,
      client_us: (cpu.user + cpu.system) / jobs,
      redis_us: ((after.cpuSeconds - before.cpuSeconds) * 1e6) / jobs,
      bytes_per_job: (after.dataBytes - before.dataBytes) / jobs,
    }),
  );
}

async function redisUsage() {
  const text = await info();
  const field = (name) => Number(new RegExp(`^${name}:(.*)$`, 'm').exec(text)?.[1] ?? 0);
  return {
    cpuSeconds: field('used_cpu_user') + field('used_cpu_sys'),
    dataBytes: field('used_memory') - field('mem_aof_buffer') - field('mem_clients_normal'),
  };
}

function info() {
  return new Promise((resolve, reject) => {
    let text = '';
    const connection = net.connect(port, '127.0.0.1', () => connection.write('INFO everything\r\n'));
    connection.on('error', reject);
    connection.on('data', (chunk) => {
      text += chunk.toString('latin1');
      const head = /^\$(\d+)\r\n/.exec(text);
      if (head && text.length >= head[0].length + Number(head[1]) + 2) {
        connection.destroy();
        resolve(text.slice(head[0].length).replaceAll('\r', ''));
      }
    });
  });
}
