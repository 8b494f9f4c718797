import { connectLocal } from '../api/local.ts'
import { createClient, type Client } from '../client/client.ts'

/** A client of an engine in this process. The engine does nothing before it is asked something, and ends with the process. */
export const openClient = (): Client => createClient(connectLocal())
