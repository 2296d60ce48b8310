// What the Node adapters share; stopwatch.py says what each part is for.

import fs from 'node:fs';
import net from 'node:net';
import { createRequire } from 'node:module';
import path from 'node:path';
import readline from 'node:readline';

const BATCH_JOBS = 100;
const JOBS_A_CALL = Number(process.env.BENCH_CALL ?? 1000);
const WARM_UP_JOBS = 100;
const PAYLOAD_BYTES = 100;
const RECORD_BYTES = 40;
const SAMPLE_TIMEOUT_MS = 10_000;
const RESULT = { ok: true };

export const port = Number(process.env.BENCH_PORT);
export const setting = process.env.BENCH_SETTING ?? '';
export const keepsResults = process.env.BENCH_KIND === 'jobs';

// The peer is installed outside the repository, so it is looked up from there.
export const peerRequire = createRequire(path.join(process.env.BENCH_PEER_DIR, 'package.json'));

const nowNs = () => process.hrtime.bigint().toString().padStart(20, '0');
const payload = () => nowNs().padEnd(PAYLOAD_BYTES, 'x');
const unevenPauseMs = () => 3 + Math.random() * 10;
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

let file;

export function record(task) {
  const startedAt = nowNs();
  file ??= fs.openSync(process.env.BENCH_RECORDS, 'a');
  fs.writeSync(file, startedAt + task.slice(0, 20));
  return keepsResults ? RESULT : undefined;
}

// send, sendMany and ask (send one job, return its result) return promises; work returns at once
// and leaves the worker running. Without sendMany, 100 are sent at once.
export async function main({ send, sendMany, ask, work, close }) {
  const [verb, count] = process.argv.slice(2);
  const jobs = Number(count ?? 0);
  if (verb === 'worker') {
    await work();
    return;
  }
  if (verb === 'latency') await runLatency(jobs, send);
  else if (verb === 'roundtrip') await runRoundTrips(jobs, ask);
  else if (verb === 'roundtrips') {
    for await (const line of readline.createInterface({ input: process.stdin })) {
      await runRoundTrips(Number(line), ask);
    }
  }
  else if (verb === 'enqueue-bulk') await runBulk(jobs, send, sendMany);
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

async function runBulk(jobs, send, sendMany) {
  const sendBatch = (size) => {
    const batch = Array.from({ length: size }, payload);
    return sendMany ? sendMany(batch) : Promise.all(batch.map(send));
  };
  const most = sendMany ? JOBS_A_CALL : BATCH_JOBS;
  await sendBatch(WARM_UP_JOBS);
  await measured(jobs, sendMany ? 'call' : 'in_flight', async () => {
    for (let start = 0; start < jobs; start += most) {
      await sendBatch(Math.min(most, jobs - start));
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
    await sleep(unevenPauseMs());
    while (fs.statSync(records).size < size) {
      if (Date.now() > deadline) throw new Error('a job was not started within 10 s');
      await sleep(1);
    }
  }
  console.log(JSON.stringify({ jobs }));
}

async function runRoundTrips(jobs, ask) {
  const ms = [];
  for (let i = 0; i < jobs; i += 1) {
    const beganAt = process.hrtime.bigint();
    const result = await inTime(ask(payload()));
    ms.push(Number(process.hrtime.bigint() - beganAt) / 1e6);
    if (result?.ok !== RESULT.ok) throw new Error(`the result is ${JSON.stringify(result)}`);
    await sleep(unevenPauseMs());
  }
  console.log(JSON.stringify({ ms }));
}

function inTime(promise) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error('no result within 10 s')), SAMPLE_TIMEOUT_MS);
  });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
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
  const beside = ['mem_aof_buffer', 'mem_clients_normal', 'used_memory_scripts_eval'];
  const field = (name) => Number(new RegExp(`^${name}:(.*)$`, 'm').exec(text)?.[1] ?? 0);
  return {
    cpuSeconds: field('used_cpu_user') + field('used_cpu_sys'),
    dataBytes: field('used_memory') - beside.map(field).reduce((sum, bytes) => sum + bytes),
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
