// The OpenAPI 3.1 document of the table of operations. A map over it: one POST an operation, its input as the JSON body.
//
// What yields events answers with one JSON value a line (or as server-sent events, by the Accept header); each schema stands as `contentSchema`, since
// OpenAPI 3.1 has no way to say "a sequence of these". What takes bytes has them as its body and its input as a parameter.

import { codes, type Code } from '../model/error.ts'
import { commonErrors } from '../protocol/fields.ts'
import { operations } from '../protocol/operation/index.ts'
import type { Operation } from '../protocol/operation/operation.ts'
import { jsonSchemaOf } from '../protocol/validate.ts'

/** The document, as JSON has it. `version`: of the package. */
export const openapiDocument = (version: string): object => {
  const components = new Map<string, object>([['Error', errorSchema]])
  const rows = Object.values<Operation>(operations)
  const paths = Object.fromEntries(rows.map((operation) => [`/${operation.name}`, { post: toPost(operation, components) }]))
  return {
    openapi: '3.1.0',
    info: { title: 'sandlot', version, summary: 'Sandboxes for what AI agents run', license: { name: 'Apache-2.0', identifier: 'Apache-2.0' } },
    tags: [...new Set(rows.map(({ name }) => nounOf(name)))].map((name) => ({ name })),
    paths,
    components: { schemas: Object.fromEntries([...components].sort(([a], [b]) => (a < b ? -1 : 1))) },
  }
}

const nounOf = (name: string): string => name.slice(0, name.indexOf('.'))

const toPost = (operation: Operation, components: Map<string, object>): object => {
  const input = jsonSchemaOf(operation.input, 'input', components)
  const request =
    operation.stream === undefined
      ? { requestBody: { required: true, content: { 'application/json': { schema: input } } } }
      : {
          parameters: [{ name: 'input', in: 'query', required: true, content: { 'application/json': { schema: input } } }],
          requestBody: { required: true, content: { 'application/octet-stream': { schema: { type: 'string', format: 'binary' } } } },
        }
  return {
    operationId: operation.name,
    summary: operation.doc.slice(0, operation.doc.indexOf('.') + 1),
    description: operation.doc,
    tags: [nounOf(operation.name)],
    ...(operation.capability !== undefined && { 'x-capability': operation.capability }),
    ...request,
    responses: { ...answerOf(operation, components), ...refusalsOf(operation.errors) },
  }
}

const answerOf = ({ output, events }: Operation, components: Map<string, object>): object => {
  if (events !== undefined) {
    const lines = { type: 'string', contentMediaType: 'application/json', contentSchema: jsonSchemaOf(events, 'answer', components) }
    return {
      200: {
        description: 'events until the last one',
        content: {
          'application/x-ndjson': { schema: { ...lines, description: 'one event a line' } },
          'text/event-stream': { schema: { ...lines, description: 'one event a `data` field' } },
        },
      },
    }
  }
  if (output === undefined) return { 204: { description: 'done' } }
  return { 200: { description: 'done', content: { 'application/json': { schema: jsonSchemaOf(output, 'answer', components) } } } }
}

const refusalsOf = (errors: readonly Code[]): object => {
  const byStatus = new Map<number, Code[]>()
  for (const code of new Set([...errors, ...commonErrors])) byStatus.set(codes[code].http, [...(byStatus.get(codes[code].http) ?? []), code])
  return Object.fromEntries(
    [...byStatus].map(([status, list]) => [
      status,
      {
        description: list.map((code) => `\`${code}\``).join(', '),
        content: {
          'application/json': {
            schema: { allOf: [{ $ref: '#/components/schemas/Error' }, { properties: { error: { properties: { code: { enum: list } } } } }] },
          },
        },
      },
    ]),
  )
}

const errorSchema = {
  type: 'object',
  description: 'Why sandlot failed or refused; match it by its code',
  required: ['error'],
  properties: {
    error: {
      type: 'object',
      required: ['code', 'message', 'hint', 'detail'],
      properties: {
        code: { enum: Object.keys(codes), description: 'stable; the other fields are for people' },
        message: { type: 'string' },
        hint: { type: 'string', description: 'what to do about it' },
        detail: { type: 'object', additionalProperties: { type: ['string', 'number', 'boolean'] }, description: 'facts a program may use' },
      },
    },
  },
}
