import { createEngine } from '../../src/index.ts'
import { contract } from './suite.ts'

contract('the namespace driver', () => createEngine())
