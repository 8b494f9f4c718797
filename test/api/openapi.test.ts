import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { Validator } from '@seriousme/openapi-schema-validator'
import { openapiDocument } from '../../src/api/openapi.ts'
import { codes } from '../../src/model/error.ts'
import { operations } from '../../src/protocol/operation/index.ts'
import type { Operation } from '../../src/protocol/operation/operation.ts'

type Responses = { readonly [status: string]: { readonly description: string; readonly content?: { readonly [type: string]: { readonly schema: object } } } }
type Post = {
  readonly operationId: string
  readonly description: string
  readonly requestBody: { readonly content: { readonly [type: string]: { readonly schema: object } } }
  readonly parameters?: readonly { readonly content: { readonly [type: string]: { readonly schema: object } } }[]
  readonly responses: Responses
}
const document = openapiDocument('1.2.3') as {
  readonly info: { readonly version: string }
  readonly paths: { readonly [path: string]: { readonly post: Post } }
  readonly components: { readonly schemas: { readonly [name: string]: object } }
}
const rows: readonly Operation[] = Object.values(operations)

describe('the OpenAPI document', () => {
  it('is valid OpenAPI 3.1', async () => {
    const validator = new Validator()
    const result = await validator.validate(structuredClone(document))
    assert.deepEqual(result.errors, undefined)
    assert.equal(result.valid, true)
    assert.equal(validator.version, '3.1')
    assert.equal(document.info.version, '1.2.3')
  })

  it('is refused by that validator when it is wrong, so the test can fail', async () => {
    const wrong = structuredClone(document) as unknown as { paths: { [path: string]: { post: { responses?: object } } } }
    delete wrong.paths['/sandbox.create']!.post.responses
    wrong.paths['/sandbox.create']!.post = { ...wrong.paths['/sandbox.create']!.post, responses: 'none' as unknown as object }
    assert.equal((await new Validator().validate(wrong)).valid, false)
  })

  it('has each operation of the table once', () => {
    assert.deepEqual(
      Object.keys(document.paths),
      Object.keys(operations).map((name) => `/${name}`),
    )
    assert.deepEqual(
      Object.values(document.paths).map(({ post }) => post.operationId),
      Object.keys(operations),
    )
    for (const { name, doc } of rows) assert.equal(document.paths[`/${name}`]!.post.description, doc)
  })

  it('refers only to components that it has, and has none that nobody refers to', () => {
    const text = JSON.stringify(document)
    const refers = new Set([...text.matchAll(/"\$ref":"#\/components\/schemas\/(\w+)"/g)].map(([, name]) => name!))
    assert.deepEqual([...refers].sort(), Object.keys(document.components.schemas))
    assert.doesNotMatch(text, /\$defs|"\$schema"/)
  })

  it('lists for each operation the codes it may fail with, under the status of the code table', () => {
    for (const { name, errors } of rows) {
      const { responses } = document.paths[`/${name}`]!.post
      for (const code of [...errors, 'argument.invalid', 'argument.unknown', 'internal'] as const) {
        assert.match(responses[codes[code].http]?.description ?? '', new RegExp(`\`${code}\``), `${name} ${code}`)
      }
      const listed = Object.values(responses).flatMap(({ description }) => [...description.matchAll(/`([a-z_.]+)`/g)].map(([, code]) => code))
      assert.equal(listed.length, errors.length + 3, name)
    }
  })

  it('says that events come one a line or as server-sent events, and what one is', () => {
    const { content } = document.paths['/exec.output']!.post.responses['200']!
    assert.deepEqual(Object.keys(content!), ['application/x-ndjson', 'text/event-stream'])
    for (const { schema } of Object.values(content!))
      assert.deepEqual((schema as { contentSchema: object }).contentSchema, { $ref: '#/components/schemas/OutputEvent' })
  })

  it('takes bytes as the body and the input beside them', () => {
    const { requestBody, parameters } = document.paths['/exec.input']!.post
    assert.deepEqual(Object.keys(requestBody.content), ['application/octet-stream'])
    const schema = parameters?.[0]?.content['application/json']?.schema as { required: string[] }
    assert.deepEqual(schema.required, ['sandbox', 'exec'])
  })

  it('answers nothing where the table has no output', () => {
    assert.deepEqual(document.paths['/sandbox.destroy']!.post.responses['204'], { description: 'done' })
  })
})
